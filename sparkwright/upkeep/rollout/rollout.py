"""A rollout: one replica after the other, a soak after each wave, and the way back.

Each step is a run of its own. What serves is read before and after it, and decides what comes next.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.paths import inventory_file
from sparkwright.common.schema import nearest
from sparkwright.common.terminal import plain
from sparkwright.run.spark import fleet_of
from sparkwright.upkeep.rollout.plan import (
    ReplicaRecord,
    Result,
    Serving,
    make_plan,
    plan_lines,
    table,
)
from sparkwright.upkeep.rollout.runs import Runs

# In the site's folder.
REPORTS = Path("rollouts")
# Seconds between two looks at what serves while a wave soaks.
SOAK_POLL = 30
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class StoppedError(Exception):
    """The early end of a rollout; the records say why."""


@dataclass
class Rollout:
    """One rollout, whose plan is made.

    Attributes:
        soak: seconds for which each wave must serve.
        file: of the report.
        stopped: why it ended early; "" unless it did.
    """

    records: Mapping[str, ReplicaRecord]
    waves: Sequence[Sequence[ReplicaRecord]]
    runs: Runs
    soak: float
    minimum_speed: float | None
    file: Path
    stopped: str = ""
    _started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _since: dict[str, tuple[int | None, ...]] = field(default_factory=dict)

    def run(self) -> None:
        """Switch all waves; after the first failure take back the wave that has not soaked."""
        switched: list[ReplicaRecord] = []
        try:
            for record in self.records.values():
                if record.reason:
                    self._failed(record, record.result, record.reason)
            self._go_on()
            for wave in self.waves:
                for record in wave:
                    self._switch(record)
                    if record.result is Result.SWITCHED:
                        switched.append(record)
                if switched:
                    self._soak(switched)
                switched.clear()
            self._look()
        except StoppedError:
            self._take_back(switched)
        self._keep(ended=datetime.now(UTC).strftime(_TIME))

    def _switch(self, record: ReplicaRecord) -> None:
        """Switch one replica, unless something has changed since the plan was made."""
        now = self._look()[record.replica]
        if now.release == record.release and not now.switching:
            record.result = Result.ALREADY
            return
        if now.release not in (record.previous, None) and not now.switching:
            reason = (
                f"found {now.release}, set by somebody else; expected {record.previous} as when "
                f"the rollout began, or {record.release}"
            )
            raise self._failed(record, Result.REFUSED, reason)
        record.result = Result.SWITCHING
        where = f"wave {record.wave} of {len(self.waves)}: replica {record.replica}"
        self._keep(f"{where} switches to {record.release}")
        problem = self.runs.switch([record]).get(record.replica)
        now = self.runs.look()[record.replica]
        if now.problem or now.switching:
            raise self._failed(record, Result.LOST, problem or now.problem)
        if problem and now.release not in (None, record.release):
            raise self._failed(record, Result.FAILED, problem)
        if problem or now.release != record.release:
            failed = self._failed(record, Result.DOWN, problem or "it served for a moment only")
            # It may be in force on one Spark of a group, or serve without giving an answer.
            if (now.release or len(record.sparks) > 1) and not self.runs.go_back(record):
                record.result = Result.FAILED
            raise failed
        record.in_service, self._since[record.replica] = True, now.since
        record.result = Result.SWITCHED
        self._keep()

    def _soak(self, wave: Sequence[ReplicaRecord]) -> None:
        """Check that each engine of a wave lasts for the soak time, and then answers."""
        self._keep(f"{', '.join(each.replica for each in wave)}: must serve for {self.soak:g} s")
        began = time.monotonic()
        self._check_life(wave, began)
        while (left := began + self.soak - time.monotonic()) > 0:
            time.sleep(min(SOAK_POLL, left))
            self._check_life(wave, began)
        problems = self.runs.switch(wave, self.minimum_speed)
        for record in wave:
            if problem := problems.get(record.replica):
                self._failed(record, Result.STUCK, problem)
        self._check_life(wave, began)

    def _check_life(self, wave: Sequence[ReplicaRecord], began: float) -> None:
        """Stop where an engine of a wave is no longer the one that was started."""
        now = self.runs.look()
        for record in (each for each in wave if each.result is Result.SWITCHED):
            seen, seconds = now[record.replica], time.monotonic() - began
            if (seen.release, seen.since) != (record.release, self._since[record.replica]):
                ended = f"vllm@{record.release} failed its soak: it ended within {seconds:.0f} s"
                self._failed(record, Result.STUCK, seen.problem or ended)
        self._go_on()

    def _look(self) -> Mapping[str, Serving]:
        """Return what serves; stop where a replica no longer does."""
        now = self.runs.look()
        for name, record in self.records.items():
            if now[name].problem:
                self._failed(record, Result.LOST, now[name].problem)
            elif record.in_service and now[name].release is None:
                result = Result.STUCK if record.result is Result.SWITCHED else Result.REFUSED
                self._failed(record, result, "it served when the rollout began, and does no more")
        self._go_on()
        return now

    def _take_back(self, switched: Sequence[ReplicaRecord]) -> None:
        """Have a wave serve what it served before, the last replica first."""
        stuck = [each for each in self.records.values() if each.result is Result.STUCK]
        for record in [*(each for each in stuck if each not in switched), *reversed(switched)]:
            is_cause, record.reason = record in stuck, record.reason or self.stopped
            self._keep(f"replica {record.replica} goes back to {record.previous or 'nothing'}")
            if problem := self.runs.go_back(record):
                record.result = Result.STUCK
                record.reason += f"; the way back failed: {problem}"
            else:
                record.result = Result.FAILED if is_cause else Result.BACK
            self._keep()

    def _failed(self, record: ReplicaRecord, result: Result, reason: str) -> StoppedError:
        """Note why a replica ends the rollout."""
        record.result, record.reason = result, reason
        self.stopped = self.stopped or f"replica {record.replica}: {reason}"
        self._keep()
        return StoppedError()

    def _go_on(self) -> None:
        if self.stopped:
            raise StoppedError

    def _keep(self, line: str = "", ended: str | None = None) -> None:
        """Write the report as it is now, and say a line."""
        report = {
            "started": self._started.strftime(_TIME),
            "ended": ended,
            "soak": self.soak,
            "minimum_speed": self.minimum_speed,
            "stopped": self.stopped,
            "replicas": [asdict(record) for record in self.records.values()],
        }
        _say([line] if line else [])
        write_file(self.file, json.dumps(report, indent=2) + "\n")


def roll_out(
    runs: Runs,
    soak: float,
    minimum_speed: float | None,
    forced: Collection[str],
    *,
    dry: bool,
    yes: bool,
) -> int:
    """Have each replica serve what the inventory asks for; return the exit status.

    Args:
        dry: show the waves, and change nothing.
        yes: do not ask.
    """
    replicas = fleet_of(inventory_file()).replicas
    for name in forced:
        if name not in replicas:
            raise PlanError(f"--force: found {name!r}; {nearest(name, replicas)}")
    if not dry:
        # Until this process ends.
        REPORTS.mkdir(exist_ok=True)
        lock = os.open(REPORTS / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanError("found another rollout at work in this folder; expected none") from None
    really = ["-y"] if yes else ["--dry", "-y"]
    for mode in ["--dry"] if dry else really:
        status, answers = runs.prepare(mode)
        if status or not answers:
            return status
        records = {
            name: ReplicaRecord(
                replica=name,
                sparks=replica.sparks,
                release=answers[name][0]["release"],
                models=answers[name][0]["models"],
                fits=all(each["fits"] for each in answers[name]),
            )
            for name, replica in replicas.items()
            if name in answers
        }
        waves = make_plan(records, runs.look(), forced)
        _say(plan_lines(records.values(), waves))
        if mode == "--dry":
            refused = any(record.reason for record in records.values())
            if dry or refused or not click.confirm("Do this?"):
                return int(refused or not dry)
    file = file_in(REPORTS, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ.json"))
    rollout = Rollout(records, waves, runs, soak, minimum_speed, file)
    rollout.run()
    _say([*table(records.values(), rollout.stopped), f"The report: {file}"])
    return int(bool(rollout.stopped))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(plain(line))
