"""What a host says, and the parts of what it is that a program there reads: files/host/state."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

# Characters of one text: the largest, such as a configuration of another tool, has some thousand.
_TEXT = 1 << 20
# Bound of a host's numbers: 64 bits, which a float can represent as well.
_MOST = 1 << 63


class Bounded(BaseModel):
    """What a host says: nothing is converted, and texts have a bound.

    Of what a program of another version may have written, unknown keys are ignored: extra="ignore".
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        str_max_length=_TEXT,
        defer_build=True,
    )


class Part(Bounded):
    """A part of what a host is: `read` of a module of files/host/state, or MODULE.FUNCTION.

    Attributes:
        patience: Seconds within which the host must have read it.
    """

    part: ClassVar[str]
    patience: ClassVar[float] = 30

    @classmethod
    def ask(cls, **arguments: Any) -> Ask[Self]:
        """Return what asks a host for this part: the arguments of `read` in its module there."""
        return Ask(cls, arguments)


P = TypeVar("P", bound=Part)


@dataclass(frozen=True, eq=False)
class Ask(Generic[P]):
    """A part, and what is asked about it."""

    model: type[P]
    arguments: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.model.part

    @cached_property
    def key(self) -> str:
        """The ask as a line of JSON: part, arguments, and seconds."""
        return json.dumps([self.model.part, self.arguments, self.model.patience], sort_keys=True)

    def value(self, line: str) -> P:
        """Return the part by the line of JSON that a host answers.

        Raises:
            ValueError: The host could not read it, or says what it should not.
        """
        answer = read_json(line)
        if not isinstance(answer, dict) or "known" not in answer:
            reason = answer.get("unknown") if isinstance(answer, dict) else "no answer"
            raise ValueError(f"{self.model.part}: {reason}")
        try:
            return self.model.model_validate_json(json.dumps(answer["known"]))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join([self.model.part, *map(str, first["loc"])])
            found = f"the host says what it should not: {where}: {first['msg']}"
        raise ValueError(found)


def read_json(text: str) -> Any:
    """Return the value of a JSON text from a host.

    Raises:
        ValueError: it is no JSON, nested too deeply, or has a number that is not finite or does not
            fit 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) >= _MOST:
        raise ValueError(f"found a number of {len(text)} digits; expected one of 64 bits")
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text[:20]}; expected a finite number")
    return number
