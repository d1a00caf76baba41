"""The plan of a rollout: which replicas switch, in which wave, and which switch is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkwright.common.command_line import next_line


class Result(StrEnum):
    """The outcome for a replica, in the words of the report."""

    WAITING = "not reached"
    ALREADY = "serves it already"
    SWITCHING = "switching"
    SWITCHED = "switched"
    FAILED = "failed, the previous release serves"
    DOWN = "failed, and does not serve"
    BACK = "taken back"
    STUCK = "not taken back"
    REFUSED = "refused"
    LOST = "no connection"


@dataclass(frozen=True)
class Serving:
    """What a replica serves now.

    Attributes:
        release: None unless all its Sparks serve the same one.
        boots: what it serves after a boot.
        since: when the engine of each Spark began to serve; None where requests start it.
        names: by which clients ask for it.
        switching: a switch is under way.
        problem: why a Spark gave no answer; "" if all did.
    """

    release: str | None = None
    boots: str | None = None
    since: tuple[int | None, ...] = ()
    names: frozenset[str] = frozenset()
    switching: bool = False
    problem: str = ""


@dataclass
class ReplicaRecord:
    """A replica's part in a rollout, as the report has it.

    Attributes:
        sparks: of the replica, the head first.
        release, models: what it should serve, and the names by which clients ask for that.
        fits: the new engine fits into memory beside the previous one.
        previous: what it served at the start; None for nothing.
        in_service: it served at the start, or has switched since.
        wave: counted from 1; None where it does not switch.
        reason: why it is not `SWITCHED` or `ALREADY`.
        seconds, gap: of the switch, and of the part of it in which new requests waited.
        beside: both engines ran side by side.
        speed: tokens a second of one stream; None where it was not measured.
    """

    replica: str
    sparks: Sequence[str]
    release: str
    models: Sequence[str]
    fits: bool = False
    previous: str | None = None
    in_service: bool = False
    wave: int | None = None
    result: Result = Result.WAITING
    reason: str = ""
    seconds: float = 0.0
    gap: float = 0.0
    beside: bool = False
    speed: float | None = None


def serving_of(rows: Sequence[Mapping[str, Any]]) -> Serving:
    """Return what a replica serves, by the rows of `status` about its Sparks, the head's first."""
    for row in rows:
        if not row["answers"]:
            return Serving(problem=f"{row['spark']}: {', '.join(row['warnings'])}")
    releases = {row["release"] if _serves(row) else None for row in rows}
    return Serving(
        release=releases.pop() if len(releases) == 1 else None,
        boots=rows[0]["release"],
        since=tuple(None if row["on_demand"] else row["up_since"] for row in rows),
        names=frozenset(rows[0]["models"]),
        switching=any(row["switches"] for row in rows),
    )


def _serves(row: Mapping[str, Any]) -> bool:
    """Tell whether it serves, or would if requests asked for it: it has before."""
    may = row["on_demand"] and row["state"] != "failed" and row["last_served"] == row["release"]
    return bool(may or row["state"] == "active")


def make_plan(
    records: Mapping[str, ReplicaRecord], now: Mapping[str, Serving], forced: Collection[str]
) -> list[list[ReplicaRecord]]:
    """Return the waves; note in the records what serves, and each reason why nothing may begin.

    Args:
        records: in the order of the inventory.
        forced: replicas that may leave their clients without service.
    """
    todo = []
    for name, record in records.items():
        seen = now[name]
        record.in_service = seen.release is not None
        # During a switch nothing may serve; what boots is what the switch would go back to.
        record.previous = seen.release or (seen.boots if seen.switching else None)
        if seen.problem:
            record.result, record.reason = Result.LOST, seen.problem
        elif seen.release == record.release and not seen.switching:
            record.result = Result.ALREADY
        else:
            todo.append(record)
    waves = _waves(todo)
    for number, wave in enumerate(waves, 1):
        for record in wave:
            record.wave = number
    served = {name: seen.names for name, seen in now.items() if seen.release}
    for record in todo:
        name = record.replica
        others = [names for other, names in served.items() if other != name]
        # The inventory gave up a name that the new release lacks.
        missing = (now[name].names & {*record.models}).difference(*others)
        alone = record.in_service and (missing or not others)
        if alone and not record.fits and name not in forced:
            what = f"model {' or '.join(sorted(missing))}" if others else "a model"
            record.result = Result.REFUSED
            record.reason = (
                f"while it switches, no other replica of this run serves {what}, and its memory "
                f"does not hold both engines. To switch anyway: --force {name}"
            )
        served[name] = frozenset(record.models)
    return waves


def _waves(records: Sequence[ReplicaRecord]) -> list[list[ReplicaRecord]]:
    """Divide replicas into waves: one as a canary, then 1, 2, 4, … as trust grows."""
    waves: list[list[ReplicaRecord]] = []
    size = 1
    while records:
        waves.append([*records[:size]])
        records = records[size:]
        size = 2 ** (len(waves) - 1)
    return waves


def plan_lines(
    records: Collection[ReplicaRecord], waves: Sequence[Sequence[ReplicaRecord]]
) -> list[str]:
    """Return the lines of a rollout's plan, or of why there is none."""
    if refused := [each for each in records if each.reason]:
        return [f"replica {each.replica}: {each.reason}" for each in refused]
    lines = []
    for number, wave in enumerate(waves, 1):
        changes = [f"{one.replica} ({one.previous or 'nothing'} -> {one.release})" for one in wave]
        lines.append(f"wave {number} of {len(waves)}: {', '.join(changes)}")
    already = [each.replica for each in records if each.result is Result.ALREADY]
    return lines + ([f"{Result.ALREADY}: {', '.join(already)}"] if already else [])


def table(records: Collection[ReplicaRecord], stopped: str) -> list[str]:
    """Return a heading, a line for each replica, and how to go on where a rollout has stopped."""
    rows = [("replica", "wave", "what happened", "s", "gap s", "tok/s")]
    for record in records:
        rows.append(
            (
                record.replica,
                str(record.wave or ""),
                record.result + (", beside the previous release" if record.beside else ""),
                f"{record.seconds:.0f}" if record.seconds else "",
                f"{record.gap:.1f}" if record.seconds else "",
                "" if record.speed is None else f"{record.speed:.1f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if not stopped:
        return lines
    lines.append(f"Stopped: {stopped}")
    for record in records:
        if record.result in (Result.DOWN, Result.STUCK) and record.previous:
            back = next_line("rollback", f"--limit {record.replica}")
            lines.append(f"To have {record.previous} serve again: {back}")
    return [*lines, "Run again to go on: a replica that serves what it should is not touched."]
