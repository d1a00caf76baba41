"""What an engine is asked, by what its recipe says that it answers, and what its answer proves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.part import read_json
from sparkwright.declared.recipe.recipe import Answers

# By what an engine answers: a path, the bodies of the shortest request and of an example, and the
# keys of the number in the first one's answer that proves it.
_KINDS: dict[str, Any] = yaml.load(Path(__file__).with_name("questions.yaml"))


@dataclass(frozen=True)
class Question:
    """What is posted to a path."""

    path: str
    body: dict[str, Any]


def shortest(answers: Answers, model: str) -> Question:
    """Return the request that takes an engine the least work."""
    return Question(_KINDS[answers]["path"], {"model": model} | _KINDS[answers]["shortest"])


def example(answers: Answers, model: str) -> Question:
    """Return a request that a person can judge the answer of."""
    return Question(_KINDS[answers]["path"], {"model": model} | _KINDS[answers]["example"])


def problem(answers: Answers, answer: str) -> str | None:
    """Return why the answer to the shortest request proves nothing; None if it does."""
    asked, number = _KINDS[answers]["asked"], _number(answer, *_KINDS[answers]["proof"])
    if number is None:
        return f"{asked} gave: {answer[:300] or 'no answer'}"
    if answers == "chat" and number < 1:
        return f"{asked} came back without a token"
    return None


def _number(answer: str, *keys: str | int) -> float | None:
    """Return the finite number that is under these keys of a JSON text; None without one."""
    try:
        found: Any = read_json(answer)
        for key in keys:
            found = found[key]
        return float(found)
    except (ValueError, KeyError, IndexError, TypeError):
        return None
