"""Known causes of failure and slowness: how each shows, what is wrong, and its remedy."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sparkwright.common.schema import Model
from sparkwright.plan.causes.journal import Journal

# Characters of evidence that are kept: a traceback's line may hold a whole configuration.
EVIDENCE = 300


@dataclass(frozen=True)
class Diagnosis:
    """One cause that was found, and the line or reading that shows it, or makes it likely."""

    name: str
    cause: str
    evidence: str
    remedy: str
    source: str = ""
    symptom: bool = False
    guess: bool = False


def _compiled(alternatives: Any) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


_Pattern = Annotated[re.Pattern[str], BeforeValidator(_compiled)]


class KnownCause(Model):
    """A cause of failure or slowness, which a line of a log shows, or a reading.

    Attributes:
        cause, remedy: for people; no full stop.
        source: where it is known from.
        symptom: it tells that something failed, and not why.
        shows: patterns of lines that show it; none if only a reading does.
        suggests: patterns of lines that count where nothing else shows a reason.
        otherwise: causes that are likely as well where a line shows this one.
        settled: patterns of a later line that takes back what was shown.
        mild: lines count that are no more than a warning.
        starts: an engine that has begun to serve cannot meet it.
        lasts: it holds on after the engine has begun to serve.
        serving: an engine that serves may show it as well.
    """

    name: str
    cause: str
    remedy: str
    source: str
    symptom: bool = False
    shows: _Pattern | None = None
    suggests: _Pattern | None = None
    otherwise: list[str] = Field(default_factory=list)
    settled: _Pattern | None = None
    mild: bool = False
    starts: bool = False
    lasts: bool = False
    serving: bool = False

    def diagnosis(self, evidence: str) -> Diagnosis:
        """Return the diagnosis, given the evidence that shows the cause."""
        return Diagnosis(
            self.name, self.cause, evidence[:EVIDENCE], self.remedy, self.source, self.symptom
        )

    def evidence(self, journal: Journal, *, weak: bool = False) -> str | None:
        """Return the first line that shows it and still holds; None where none does.

        Args:
            weak: a line that suggests it, in the place of one that shows it.
        """
        pattern = self.suggests if weak else self.shows
        if pattern is None or (journal.serves and (weak or not self.serving)):
            return None
        shown = None
        for line in journal.lines(mild=self.mild, past=self.lasts, served=not self.starts):
            if self.settled and self.settled.search(line):
                shown = None
            elif shown is None and pattern.search(line):
                shown = line.strip()
        return shown


def first_line(lines: Iterable[str], pattern: str | re.Pattern[str]) -> str | None:
    """Return the first line in which a pattern is found; None without."""
    return next((line.strip() for line in lines if re.search(pattern, line)), None)
