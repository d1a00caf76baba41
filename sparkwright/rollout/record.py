"""The tasks of a rollout on a Spark, their reports, and the record of each replica."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

from sparkwright.rollout.serving import ServingState, together

NOTHING = ServingState()


class Task(Enum):
    """The next task of a Spark."""

    WAIT = "wait"
    LOOK = "look"
    SWITCH = "switch"
    SOAK = "soak"
    BACK = "back"
    END = "end"


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


# The outcomes that fail the hosts of a replica.
FAILURES = (Result.FAILED, Result.DOWN, Result.STUCK, Result.REFUSED, Result.LOST)


@dataclass(frozen=True)
class TaskReport:
    """The result of a task on one Spark, or on all Sparks of a replica.

    Attributes:
        problem: why it failed; "" when it did not.
        serving: what serves now.
        fits_beside: the new engine fits beside the previous one, so that no request is refused.
        restored: the previous release serves.
        undo: the switch is in force in spite of the problem, at least on one of its Sparks.
        beside: both engines ran side by side.
        seconds, gap: of the switch, and those of it in which requests were refused.
        speed: tokens a second of one stream; None where it was not measured.
    """

    problem: str = ""
    serving: ServingState = NOTHING
    fits_beside: bool = False
    restored: bool = False
    undo: bool = False
    beside: bool = False
    seconds: float = 0.0
    gap: float = 0.0
    speed: float | None = None


@dataclass
class ReplicaRecord:
    """The effect of a rollout on one replica.

    Attributes:
        sparks: of the replica, the head first.
        release: what it should serve; "" before one of its Sparks has declared it.
        names: the model names of that release.
        previous: what it served at the start; None for nothing.
        wave: its wave, from 1; None where it is in none.
        reason: why it is not `SWITCHED` or `ALREADY`.
    """

    replica: str
    sparks: tuple[str, ...]
    release: str = ""
    names: frozenset[str] = frozenset()
    previous: str | None = None
    wave: int | None = None
    result: Result = Result.WAITING
    reason: str = ""
    beside: bool = False
    seconds: float = 0.0
    gap: float = 0.0
    speed: float | None = None


def merged(reports: Sequence[TaskReport]) -> TaskReport:
    """Merge the reports of the Sparks of one replica, the head's first."""
    head = reports[0]
    return TaskReport(
        problem="; ".join(dict.fromkeys(each.problem for each in reports if each.problem)),
        serving=together(each.serving for each in reports),
        fits_beside=all(each.fits_beside for each in reports),
        restored=all(each.restored for each in reports),
        undo=any(each.undo for each in reports) or len({bool(r.problem) for r in reports}) > 1,
        beside=head.beside,
        seconds=max(each.seconds for each in reports),
        gap=head.gap,
        speed=head.speed,
    )
