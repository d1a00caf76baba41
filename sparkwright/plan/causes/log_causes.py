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
from sparkwright.plan.causes.cause import Diagnosis, Journal, KnownCause

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
