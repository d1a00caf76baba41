"""The problems for which a call is refused."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import PlanError


def refused(call: Callable[..., object], *given: Any, **named: Any) -> tuple[str, ...]:
    with pytest.raises(PlanError) as raised:
        call(*given, **named)
    return raised.value.problems


def refusal(call: Callable[..., object], *given: Any, **named: Any) -> str:
    """Return the problems as a person reads them."""
    return "\n".join(refused(call, *given, **named))


def unplaced(problems: Iterable[str], path: Path) -> list[str]:
    """Return problems of a YAML file without the file and the line, which each must begin with."""
    place = re.compile(rf"{re.escape(str(path))}:(\d+:)? ")
    matches = [(place.match(problem), problem) for problem in problems]
    assert all(match for match, _ in matches), problems
    return [problem[match.end() :] for match, problem in matches if match]
