"""A rollout from its first run to its last: `sparkwright rollout`."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.paths import inventory_file
from sparkwright.common.schema import nearest
from sparkwright.common.terminal import plain
from sparkwright.run.spark import fleet_of
from sparkwright.upkeep.rollout.course import Rollout
from sparkwright.upkeep.rollout.plan import ReplicaRecord, make_plan
from sparkwright.upkeep.rollout.report import plan_lines, report, table
from sparkwright.upkeep.rollout.runs import Runs

# In the site's folder.
REPORTS = Path("rollouts")


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

    Raises:
        PlanError: the command line asks what cannot be; no Spark has been changed.
    """
    replicas = fleet_of(inventory_file()).replicas
    for name in forced:
        if name not in replicas:
            raise PlanError(f"--force: found {name!r}; {nearest(name, replicas)}")
    if not dry:
        _keep_others_out()
    if dry or not yes:
        status, *_ = _plan(runs, "--dry", forced)
        if status or dry:
            return status
        if not click.confirm("Do this?"):
            return 1
    status, records, waves = _plan(runs, "-y", forced)
    if not records:
        return status
    started = _now()
    file = file_in(REPORTS, f"{started.replace(':', '').replace('-', '')}.json")

    def keep(line: str, ended: str | None = None) -> None:
        _say([line] if line else [])
        write_file(file, json.dumps(report(rollout, started, ended), indent=2) + "\n")

    rollout = Rollout(records, waves, runs, soak, minimum_speed, keep)
    rollout.run()
    keep("", _now())
    _say([*table(rollout), f"The report: {file}"])
    return int(bool(rollout.stopped))


def _plan(
    runs: Runs, mode: str, forced: Collection[str]
) -> tuple[int, dict[str, ReplicaRecord], list[tuple[str, ...]]]:
    """Run the preparation, and show the plan that follows; return it behind an exit status."""
    status, answers = runs.prepare(mode)
    if status or not answers:
        return status, {}, []
    records = {
        name: ReplicaRecord(
            replica=name,
            sparks=replica.sparks,
            release=answers[name][0]["release"],
            models=answers[name][0]["models"],
            fits=all(each["fits"] for each in answers[name]),
        )
        for name, replica in fleet_of(inventory_file()).replicas.items()
        if name in answers
    }
    waves = make_plan(records, runs.look(), forced)
    _say(plan_lines([*records.values()], waves))
    return int(any(record.reason for record in records.values())), records, waves


def _keep_others_out() -> None:
    """Refuse a second rollout from this folder, until this process ends."""
    REPORTS.mkdir(exist_ok=True)
    lock = os.open(REPORTS / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PlanError("found another rollout at work in this folder; expected none") from None


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(plain(line))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
