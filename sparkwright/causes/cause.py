"""Known causes of failure and slowness: how each shows, what is wrong, and its remedy."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkwright.common.command_line import next_line

Reading = TypeVar("Reading")


# Characters of evidence that are kept: a traceback's line may hold a whole configuration.
EVIDENCE = 300

# Remedies of causes in several places.
APPLY = f"`{next_line('apply')}`"
UNPLUG_REMEDY = (
    "Shut the Spark down, unplug the supply from the wall and from the unit for a minute"
)
CLOCK_REMEDY = "limit the GPU's clock (gpu_clock_max_mhz in the group data, 2000 to 2200)"
# `docker image prune` and `system prune` take what has neither tag nor container (moby,
# daemon/images/image_prune.go), such as an image for the way back: it came by digest.
SPACE_REMEDY = (
    f"Free space: `{next_line('clean')}` shows and removes what nobody goes back "
    "to; `docker builder prune` what builds keep; images of yours go one by one (`docker image ls "
    "--digests`, `docker image rm`), as `docker image prune` takes ours as well"
)


@dataclass(frozen=True)
class Diagnosis:
    """One cause that was found, and the line or reading that shows it."""

    name: str
    cause: str
    evidence: str
    remedy: str
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class KnownCause:
    """One cause of failure or slowness.

    Attributes:
        name: a `LogCause` has a test log of this name, tests/unit/logs/NAME.log.
        cause: what is wrong, for people; no full stop.
        remedy: what to do about it; no full stop.
        source: where it is known from.
    """

    name: str
    cause: str
    remedy: str
    source: str

    def diagnosis(self, evidence: str) -> Diagnosis:
        """Return the diagnosis, given the evidence that shows the cause."""
        return Diagnosis(self.name, self.cause, evidence[:EVIDENCE], self.remedy, self.source)


@dataclass(frozen=True, kw_only=True)
class LogCause(KnownCause):
    """A cause that shows by a line of a log, in which the pattern is found."""

    pattern: str

    def evidence(self, lines: Iterable[str]) -> str | None:
        """Return the first line that shows it; None where none does."""
        return first_line(lines, self.pattern)


@dataclass(frozen=True, kw_only=True)
class ReadingCause(KnownCause, Generic[Reading]):
    """A cause that shows by what was read or measured.

    Attributes:
        sign: what of the reading shows it, in words; None where nothing does.
    """

    sign: Callable[[Reading], str | None]


def first_line(lines: Iterable[str], pattern: str) -> str | None:
    """Return the first line in which a pattern is found; None without."""
    return next((line.strip() for line in lines if re.search(pattern, line)), None)


def from_reading(causes: Iterable[ReadingCause[Reading]], reading: Reading) -> list[Diagnosis]:
    """Return every cause that a reading shows, in the order of the causes."""
    seen = ((cause, cause.sign(reading)) for cause in causes)
    return [cause.diagnosis(evidence) for cause, evidence in seen if evidence is not None]
