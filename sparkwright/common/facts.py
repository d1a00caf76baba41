"""The base of every fact: a host's output is typed and bounded, or fails that host alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pyinfra.api import FactBase, Host, State
from pyinfra.api.exceptions import FactProcessError

from sparkwright.common.terminal import plain

T = TypeVar("T")

# Characters of one text: the largest that we read, such as a line of a journal or the configuration
# of another tool, has a few thousand.
_TEXT = 1 << 20
# Bound of numbers, 64 bits: Python cannot convert larger ones to floats.
_NUMBER = 1 << 63
# Characters of the message about invalid output.
_MESSAGE = 500


class HostFact(FactBase[T]):
    """A fact whose parsed output is validated against the type that it names, ``HostFact[TYPE]``.

    With pyinfra's own facts, an exception of `process` ends the run for all hosts. Here an
    exception of `parse`, or a result of another type, fails only the host that printed the output.
    Texts, numbers and the output as a whole are bounded.
    """

    abstract = True
    # True for what may be another thing a moment later, such as a job's progress: a survey at the
    # start of a run leaves it out.
    momentary: ClassVar[bool] = False

    def parse(self, output: list[str], /) -> T:
        """Return the fact's value by the output lines; any exception fails the host."""
        raise NotImplementedError

    def process(self, output: list[str]) -> T:
        """Return the value of `parse` once it is validated.

        Raises:
            FactProcessError: the output or its value is invalid.
        """
        try:
            value = self.parse(output)
            _adapter(type(self)).validate_python((value,))  # type: ignore[arg-type]
            if any(abs(number) >= _NUMBER for number in _integers(value)):
                raise ValueError("found a number beyond 64 bits")
        except Exception as error:
            message = plain(_message(error), _MESSAGE)
            raise FactProcessError(f"the host says what it should not: {message}") from None
        return value

    def check_preconditions(self, state: State, host: Host) -> None:
        """Say to the connection that the next command is a fact's."""
        host.connector.fact = "momentary" if self.momentary else "surveyed"  # type: ignore[attr-defined]


@cache
def _adapter(fact: Any) -> TypeAdapter[Any]:
    """Return the validator for the type of a fact class; nothing is converted."""
    bases = (base for each in fact.__mro__ for base in each.__dict__.get("__orig_bases__", ()))
    (kind,) = get_args(next(base for base in bases if get_origin(base) is HostFact))
    config = ConfigDict(
        strict=True, str_max_length=_TEXT, allow_inf_nan=False, revalidate_instances="always"
    )
    # In a tuple, as pydantic allows no config for the adapter of a dataclass.
    return TypeAdapter(tuple[kind], config=config)  # type: ignore[valid-type]


def _message(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _integers(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _integers(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _integers(each)
    elif isinstance(value, BaseModel):
        for _, each in value:
            yield from _integers(each)
