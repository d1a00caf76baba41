"""The plan of a rollout: which replicas switch, in which wave, and which switch is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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
        since: when the engine of each Spark began to serve.
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
    releases = {row["release"] if row["state"] == "active" else None for row in rows}
    return Serving(
        release=releases.pop() if len(releases) == 1 else None,
        boots=rows[0]["release"],
        since=tuple(row["up_since"] for row in rows),
        names=frozenset(rows[0]["models"]),
        switching=any(row["switches"] for row in rows),
    )


def waves(replicas: Sequence[str]) -> list[tuple[str, ...]]:
    """Divide replicas into waves: one as a canary, then 1, 2, 4, … as trust grows."""
    divided: list[tuple[str, ...]] = []
    first = 0
    while first < len(replicas):
        size = max(1, 2 ** (len(divided) - 1))
        divided.append(tuple(replicas[first : first + size]))
        first += size
    return divided


def make_plan(
    records: Mapping[str, ReplicaRecord], now: Mapping[str, Serving], forced: Collection[str]
) -> list[tuple[str, ...]]:
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
            todo.append(name)
    divided = waves(todo)
    served = {name: seen.names for name, seen in now.items() if seen.release}
    for name in todo:
        record = records[name]
        record.wave = next(number for number, wave in enumerate(divided, 1) if name in wave)
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
    return divided
