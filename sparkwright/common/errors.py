"""Faults: invalid input, what the checks before any change find, and what differs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sparkwright.common.terminal import plain_lines

# Characters of a problem: some list all known names.
_PROBLEM = 20_000


class PlanError(Exception):
    """Input that is invalid.

    Args:
        problems: One sentence for each problem, which names file and key:
            ``FILE: KEY: found X; expected Y``. Control characters in it are replaced.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = tuple(plain_lines(each, _PROBLEM) for each in problems)
        super().__init__("\n".join(self.problems))


def refuse(problems: Iterable[str]) -> None:
    """Raise the problems, each once, if there are any."""
    if found := dict.fromkeys(problems):
        raise PlanError(*found)


def problems_of(check: Callable[..., object], *arguments: Any) -> tuple[str, ...]:
    """Return what a check of input finds wrong with it."""
    try:
        check(*arguments)
    except PlanError as error:
        return error.problems
    return ()


@dataclass(frozen=True)
class Finding:
    """A fault and its remedy; an error stops the run, a warning does not."""

    error: bool
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{'error' if self.error else 'warning'}: {self.found}. {self.remedy}"


error, warning = partial(Finding, True), partial(Finding, False)


class Difference(NamedTuple):
    """One thing that is not as declared: a file, a unit, a package."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"
