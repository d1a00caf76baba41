"""The course of a rollout: one replica after the other, a soak after each wave, and the way back.

Each step is a run of its own. What serves is read before and after it, and decides what comes next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkwright.upkeep.rollout.plan import ReplicaRecord, Result, Serving
from sparkwright.upkeep.rollout.runs import Runs

# Seconds between two looks at what serves while a wave soaks.
SOAK_POLL = 30


class StoppedError(Exception):
    """The early end of a rollout; the records say why."""


@dataclass
class Rollout:
    """One rollout, whose plan is made.

    Attributes:
        soak: seconds for which each wave must serve.
        keep: takes a line for people, or "", after each change of a record.
        stopped: why it ended early; "" unless it did.
    """

    records: Mapping[str, ReplicaRecord]
    waves: Sequence[Sequence[str]]
    runs: Runs
    soak: float
    minimum_speed: float | None
    keep: Callable[[str], None]
    stopped: str = ""
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
                for record in (self.records[name] for name in wave):
                    self._switch(record)
                    if record.result is Result.SWITCHED:
                        switched.append(record)
                if switched:
                    self._soak(switched)
                switched.clear()
            self._look()
        except StoppedError:
            self._take_back(switched)

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
        self.keep(f"{where} switches to {record.release}")
        problem = self.runs.switch([record]).get(record.replica)
        now = self.runs.look()[record.replica]
        if now.problem or now.switching:
            raise self._failed(record, Result.LOST, problem or now.problem)
        if problem and now.release not in (None, record.release):
            raise self._failed(record, Result.FAILED, problem)
        if problem or now.release != record.release:
            failed = self._failed(record, Result.DOWN, problem or "it served for a moment only")
            # It may be in force on one Spark of a pair, or serve without giving an answer.
            if (now.release or len(record.sparks) > 1) and not self.runs.go_back(record):
                record.result = Result.FAILED
            raise failed
        record.in_service, self._since[record.replica] = True, now.since
        record.result = Result.SWITCHED
        self.keep("")

    def _soak(self, wave: Sequence[ReplicaRecord]) -> None:
        """Check that each engine of a wave lasts for the soak time, and then answers."""
        self.keep(f"{', '.join(each.replica for each in wave)}: must serve for {self.soak:g} s")
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
            self.keep(f"replica {record.replica} goes back to {record.previous or 'nothing'}")
            if problem := self.runs.go_back(record):
                record.result = Result.STUCK
                record.reason += f"; the way back failed: {problem}"
            else:
                record.result = Result.FAILED if is_cause else Result.BACK
            self.keep("")

    def _failed(self, record: ReplicaRecord, result: Result, reason: str) -> StoppedError:
        """Note why a replica ends the rollout."""
        record.result, record.reason = result, reason
        self.stopped = self.stopped or f"replica {record.replica}: {reason}"
        self.keep("")
        return StoppedError()

    def _go_on(self) -> None:
        if self.stopped:
            raise StoppedError
