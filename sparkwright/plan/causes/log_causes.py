"""The tables of known causes, and what of them a log shows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from string import Template

from pydantic import Field

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.schema import Model, parse
from sparkwright.plan.causes.cause import Diagnosis, KnownCause
from sparkwright.plan.causes.journal import Journal

# The tables that the doctor looks into. The most specific causes are first: the first one that is
# found is the one to begin with.
SUBJECTS = ("root", "platform", "start", "compute", "network", "memory", "host")
# Guesses stand behind what is shown, up to this number of causes.
GUESSED = 3
# The commands that remedies name, each by the NAME of `${NAME}`.
_COMMANDS = {
    **{verb: f"`{next_line(verb)}`" for verb in ("apply", "benchmark", "clean", "doctor", "start")},
    "apply_verify": f"`{next_line('apply', '--data weights=verify')}`",
    "refresh": f"`{next_line('lock', '--refresh')}`",
}


class _Table(Model):
    """The causes of a subject, in their order, and phrases of their remedies."""

    phrases: dict[str, str] = Field(default_factory=dict)
    causes: list[KnownCause] = Field(default_factory=list)


def _read(subject: str) -> _Table:
    path = Path(__file__).with_name(f"{subject}.yaml")
    return parse(_Table, yaml.load(path), str(path))


def _filled(own: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the known phrases and a table's own, which may name the known ones."""
    return {**known, **{name: Template(text).substitute(known) for name, text in own.items()}}


@cache
def phrases() -> Mapping[str, str]:
    """Return what remedies of all tables may name: name -> command or phrase."""
    return _filled(_read("phrases").phrases, _COMMANDS)


@cache
def table(subject: str) -> Sequence[KnownCause]:
    """Return the causes of a subject, in their order."""
    read = _read(subject)
    known = _filled(read.phrases, phrases())
    return [
        each.model_copy(update={"remedy": Template(each.remedy).substitute(known)})
        for each in read.causes
    ]


@cache
def causes() -> Mapping[str, KnownCause]:
    """Return name -> cause, of all that the doctor knows, the most specific first."""
    return {each.name: each for subject in SUBJECTS for each in table(subject)}


def from_log(
    lines: Sequence[str], shown: Mapping[str, str | None] | None = None, active: bool = False
) -> list[Diagnosis]:
    """Return every cause that log lines show, the one to begin with first; then what is likely.

    Args:
        shown: name of a cause -> the evidence, if any, by which the host itself shows it.
        active: as of a `Journal`.
    """
    shown, journal = shown or {}, Journal(lines, active)
    found = {
        cause.name: cause.diagnosis(evidence)
        for cause in causes().values()
        if (evidence := shown.get(cause.name) or cause.evidence(journal))
    }
    unexplained = all(each.symptom for each in found.values())
    # Beside a symptom no other one is guessed.
    suggested = [
        cause.diagnosis(evidence)
        for cause in causes().values()
        if not (cause.name in found or (found and cause.symptom))
        if (evidence := cause.evidence(journal, weak=True))
    ]
    likely = [
        causes()[name].diagnosis(each.evidence)
        for each in in_order([*found.values(), *suggested[:1]])
        # What a reading of the host shows, or would have shown, is no matter of guesses.
        if not shown.get(each.name)
        for name in causes()[each.name].otherwise
        if name not in shown
    ]
    guesses = {each.name: replace(each, guess=True) for each in [*suggested, *likely]}
    if unexplained and suggested:
        found[suggested[0].name] = suggested[0]
    room = max(0, GUESSED - len(found))
    others = (each for name, each in guesses.items() if name not in found)
    return in_order([*found.values(), *islice(others, room)])


def in_order(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return diagnoses in the order in which to act on them: reasons, symptoms, guesses."""
    return sorted(diagnoses, key=lambda each: (each.guess, each.symptom))


def hint(lines: Sequence[str]) -> str | None:
    """Return cause and remedy of the first known cause in a failed start's log; None without."""
    first = next(iter(from_log(lines)), None)
    return f"{first.cause}. {first.remedy}" if first else None
