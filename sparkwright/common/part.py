"""A part of what a host is, as a program there has read it: files/host/state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import ConfigDict, ValidationError

from sparkwright.common.host_output import HostAnswer, read_json

# Characters of one text: the largest, such as a configuration of another tool, has some thousand.
_TEXT = 1 << 20


class Bounded(HostAnswer):
    """What a host says: nothing is converted, and texts have a bound."""

    model_config = ConfigDict(extra="forbid", str_max_length=_TEXT, defer_build=True)


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

    @property
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
            raise ValueError(f"the host says what it should not: {self._first(error)}") from None

    def _first(self, error: ValidationError) -> str:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join([self.model.part, *map(str, first['loc'])])}: {first['msg']}"
