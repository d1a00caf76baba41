"""Known causes of failure and slowness: their tables, and what of them a log shows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.schema import Model, parse

# The tables that the doctor looks into. The most specific causes are first: the first one that is
# found is the one to begin with.
SUBJECTS = ("root", "platform", "start", "compute", "network", "memory", "host")
# Guesses stand behind what is shown, up to this number of causes.
_GUESSED = 3
# The commands that remedies name, each by the NAME of `${NAME}`.
_COMMANDS = {
    **{verb: f"`{next_line(verb)}`" for verb in ("apply", "benchmark", "clean", "doctor", "start")},
    "apply_verify": f"`{next_line('apply', '--data weights=verify')}`",
    "refresh": f"`{next_line('lock', '--refresh')}`",
}
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
        versions: patterns of the versions that are known for it, of "kernel" and "driver".
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
    versions: dict[Literal["kernel", "driver"], _Pattern] = Field(default_factory=dict)

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


class _Table(Model):
    """The causes of a subject, in their order, and phrases of their remedies."""

    phrases: dict[str, str] = Field(default_factory=dict)
    causes: list[KnownCause] = Field(default_factory=list)


def _read(subject: str, known: Mapping[str, str]) -> tuple[_Table, dict[str, str]]:
    """Return a table, and the known phrases with its own, which may name the known ones."""
    path = Path(__file__).with_name(f"{subject}.yaml")
    read = parse(_Table, yaml.load(path), str(path))
    own = {name: Template(text).substitute(known) for name, text in read.phrases.items()}
    return read, {**known, **own}


@cache
def phrases() -> Mapping[str, str]:
    """Return what remedies of all tables may name: name -> command or phrase."""
    return _read("phrases", _COMMANDS)[1]


@cache
def table(subject: str) -> Sequence[KnownCause]:
    """Return the causes of a subject, in their order."""
    read, known = _read(subject, phrases())
    return [
        each.model_copy(update={"remedy": Template(each.remedy).substitute(known)})
        for each in read.causes
    ]


@cache
def causes() -> Mapping[str, KnownCause]:
    """Return name -> cause, of all that the doctor knows, the most specific first."""
    return {each.name: each for subject in SUBJECTS for each in table(subject)}


def known_of(system: Mapping[str, str]) -> list[KnownCause]:
    """Return the causes for which the versions of a kernel and a driver together are known."""
    return [
        each
        for each in causes().values()
        if (of := each.versions) and all(of[kind].search(system.get(kind, "")) for kind in of)
    ]


def from_log(
    lines: Sequence[str], shown: Mapping[str, str | None] | None = None, active: bool = False
) -> list[Diagnosis]:
    """Return every cause that log lines show, the one to begin with first; then what is likely.

    Args:
        shown: name of a cause -> the evidence, if any, by which the host itself shows it.
        active: as of a `Journal`.
    """
    shown, journal, known = shown or {}, Journal(lines, active), causes()
    found = {
        name: cause.diagnosis(evidence)
        for name, cause in known.items()
        if (evidence := shown.get(name) or cause.evidence(journal))
    }
    unexplained = all(each.symptom for each in found.values())
    # Beside a symptom no other one is guessed.
    suggested = [
        cause.diagnosis(evidence)
        for name, cause in known.items()
        if not (name in found or (found and cause.symptom))
        if (evidence := cause.evidence(journal, weak=True))
    ]
    likely = [
        known[name].diagnosis(each.evidence)
        for each in in_order([*found.values(), *suggested[:1]])
        # What a reading of the host shows, or would have shown, is no matter of guesses.
        if not shown.get(each.name)
        for name in known[each.name].otherwise
        if name not in shown
    ]
    guesses = {each.name: replace(each, guess=True) for each in [*suggested, *likely]}
    if unexplained and suggested:
        found[suggested[0].name] = suggested[0]
    room = max(0, _GUESSED - len(found))
    others = (each for name, each in guesses.items() if name not in found)
    return in_order([*found.values(), *islice(others, room)])


def in_order(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses in the order in which to act on them: reasons, symptoms, guesses."""
    return sorted(diagnoses, key=lambda each: (each.guess, each.symptom))


def hint(lines: Sequence[str]) -> str | None:
    """Return cause and remedy of the first known cause in a failed start's log; None without."""
    first = next(iter(from_log(lines)), None)
    return f"{first.cause}. {first.remedy}" if first else None
