"""Known causes of failure and slowness: how each shows in a log, what is wrong, and its remedy."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from sparkwright.common.schema import Model

# Characters of evidence that are kept: a traceback's line may hold a whole configuration.
_EVIDENCE = 300
# Lines that hold what a client or the model wrote, and those of an access log.
_QUOTING = re.compile(
    r"Dumping |Received request \S+: |Request \S+ details: |Generated (streaming )?response|"
    r'"(GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH) [^"]*" \d{3}\b'
)
# What a client or the model wrote, within a line: its key, then a string in quotes.
_QUOTED = re.compile(
    r"""\b(prompt|content|text|output|arguments|input(_value)?)\b["']?\s*[:=]\s*"""
    r"""('(\\.|[^'\\])+('|$)|"(\\.|[^"\\])+("|$))"""
)
# Lines that are no more than a warning: vLLM's, and those of PyTorch, Python and Docker.
_MILD = re.compile(
    r"\b(INFO|WARNING|DEBUG) \d\d-\d\d |(^|\] |\]:)\[?[WI]\d{3,4} |\w+Warning: |"
    r"^(INFO|WARNING|DEBUG)\b|(^|:\d+: )Warning:|Will ignore error"
)
# Colors of a terminal.
_COLORS = re.compile(r"\x1b\[[\d;]*m")
# A start of an engine begins; it serves; it has answered a request.
_BEGINS = re.compile(r"Starting (\S+\.service - )?vLLM release |^starting the engine$")
_SERVES = re.compile(r"Application startup complete|^serving$")
_ANSWERS = re.compile(r'"POST /(v1/[\w/]+|pooling|rerank|score|invocations) HTTP/[\d.]+" 200\b')
# An engine is dead, though its unit has yet to notice.
_DEAD = re.compile(r"EngineDeadError|EngineCore (encountered an issue|failed)|^engine ended: ")


class _Line(NamedTuple):
    """A line without what it quotes.

    Attributes:
        mild: it is no more than a warning.
        served: its engine had begun to serve.
        past: its engine came to serve, or gave a further answer, after it.
    """

    text: str
    mild: bool
    served: bool
    past: bool = False


@dataclass(frozen=True)
class Journal:
    """The log of an engine, with the kernel's beside it: the lines that count, and still hold.

    The engine is active if it runs, and has done so since its first start.
    """

    log: Sequence[str]
    active: bool = False

    @cached_property
    def serves(self) -> bool:
        """True where the engine serves: nothing that it has met has stopped it."""
        held = (line.text for line in self.lines if not line.past)
        return self.active and not any(map(_DEAD.search, held))

    @cached_property
    def lines(self) -> list[_Line]:
        """All that the engine, and the kernel, said."""
        found: list[_Line] = []
        begun, served = 0, False
        for text in (_COLORS.sub("", line) for line in self.log):
            if _BEGINS.search(text):
                begun, served = len(found), False
            if _SERVES.search(text) or (self.active and _ANSWERS.search(text)):
                found[begun:] = [line._replace(past=True) for line in found[begun:]]
                begun, served = len(found), True
            if not _QUOTING.search(text):
                found.append(_Line(_QUOTED.sub(r"\1: …", text), bool(_MILD.search(text)), served))
        return found


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
            self.name, self.cause, evidence[:_EVIDENCE], self.remedy, self.source, self.symptom
        )

    def evidence(self, journal: Journal, *, weak: bool = False) -> str | None:
        """Return the first line that shows it (`weak`: that suggests it) and still holds."""
        pattern = self.suggests if weak else self.shows
        if pattern is None or (journal.serves and (weak or not self.serving)):
            return None
        shown = None
        for line in journal.lines:
            if (
                (line.mild and not self.mild)
                or (line.past and not self.lasts)
                or (line.served and self.starts)
            ):
                continue
            if self.settled and self.settled.search(line.text):
                shown = None
            elif shown is None and pattern.search(line.text):
                shown = line.text.strip()
        return shown


def first_line(lines: Iterable[str], pattern: str | re.Pattern[str]) -> str | None:
    """Return the first line in which a pattern is found; None without."""
    return next((line.strip() for line in lines if re.search(pattern, line)), None)
