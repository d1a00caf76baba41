"""The base of every fact: a host's answer is typed and bounded, or fails that host alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pyinfra.api import FactBase, Host, State
from pyinfra.api.exceptions import FactProcessError

from sparkwright.common.terminal import plain

T = TypeVar("T")

# Characters of one text, such as a file: the largest that we read whole, a journal's line or
# another tool's configuration, has some thousands.
_TEXT = 1 << 20
# What fits 64 bits: a larger number is none, and Python turns none of them into a float.
_NUMBER = 1 << 63
# Characters of what is said of a host that says something else than it should.
_SAID = 500


class HostFact(FactBase[T]):
    """A fact whose output is read, and typed, before anything is made of it.

    pyinfra ends a run for all hosts by any exception of a fact but its own, and hands on whatever
    `process` returns. Here what `parse` raises, and what is not of the type that the fact names
    (``HostFact[TYPE]``), becomes a failure of the host that said it. Texts, numbers and the output
    as a whole are bounded.

    Example:
        Script and parser of a fact are mostly functions of a pure module::

            class DoorStates(HostFact[DoorState]):
                command = staticmethod(door_script)
                parse = staticmethod(parse_door)
    """

    abstract = True

    def parse(self, output: list[str], /) -> T:
        """Return what the output lines say; whatever is raised is the host's failure."""
        raise NotImplementedError

    def process(self, output: list[str]) -> T:
        """Return what `parse` does, once it is known to be what the fact promises.

        Raises:
            FactProcessError: it is not.
        """
        try:
            found = self.parse(output)
            _adapter(type(self)).validate_python((found,))
            if any(abs(number) >= _NUMBER for number in _integers(found)):
                raise ValueError("found a number beyond 64 bits")
        except Exception as error:
            said = plain(_words(error), _SAID)
            raise FactProcessError(f"the host says what it should not: {said}") from None
        return found

    def check_preconditions(self, state: State, host: Host) -> None:
        """Have the host's connection bound what a command may print."""
        bound_output(host)


_adapters: dict[type, TypeAdapter[Any]] = {}


def _adapter(fact: type) -> TypeAdapter[Any]:
    """Return what knows the type of a fact, made when the fact is first read.

    What `parse` makes are plain dataclasses: they are validated as they are, and nothing is
    converted.
    """
    if fact in _adapters:
        return _adapters[fact]
    bases = (base for each in fact.__mro__ for base in each.__dict__.get("__orig_bases__", ()))
    (kind,) = get_args(next(base for base in bases if get_origin(base) is HostFact))
    config = ConfigDict(
        strict=True, str_max_length=_TEXT, allow_inf_nan=False, revalidate_instances="always"
    )
    # In a tuple, as pydantic takes settings for no dataclass itself.
    _adapters[fact] = TypeAdapter(tuple[kind], config=config)  # type: ignore[valid-type]
    return _adapters[fact]


def _words(error: Exception) -> str:
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


# Bytes of one command's output, of either kind: what we read by far the most of is a Spark's
# journal, 3,000 lines of some hundred bytes, and the answer of a benchmark, up to 2 MB.
MOST = 16 << 20
# Bytes that a line counts for beside its own: pyinfra keeps each as an object, and prints all of
# them where a command fails.
_LINE = 500


def bound_output(host: Host) -> None:
    """Have pyinfra read no more than `MOST` of what a command prints on a host by SSH.

    pyinfra reads until a command ends, keeps all of it, and drops the rest at the first byte that
    is not UTF-8. A host that goes on for ever would use up the memory of the machine that runs
    pyinfra, and so end the run of all others.

    Args:
        host: a connected one; this machine itself, which has no connection, stays as it is.
    """
    client = getattr(host.connector, "client", None)
    if client is not None and not isinstance(client.exec_command, _BoundedCommand):
        client.exec_command = _BoundedCommand(client.exec_command)


class _BoundedCommand:
    """paramiko's `exec_command`, with bounded files for the command's output.

    Args:
        execute: the client's own.
    """

    def __init__(self, execute: Callable[..., tuple[Any, Any, Any]]) -> None:
        self._execute = execute

    def __call__(self, *words: Any, **options: Any) -> tuple[Any, Any, Any]:
        stdin, stdout, _ = self._execute(*words, **options)
        channel = stdout.channel
        return (
            stdin,
            BoundedLines(channel.makefile("rb"), channel),
            BoundedLines(channel.makefile_stderr("rb"), channel),
        )


class BoundedLines:
    """The lines of a command's output, as text; the command fails where there are too many.

    Args:
        file: of bytes.
        channel: that the command runs in.
    """

    def __init__(self, file: Any, channel: Any) -> None:
        self._file = file
        self.channel = channel

    def __iter__(self) -> Iterator[str]:
        left = MOST
        while line := self._file.readline(left):
            left -= len(line) + _LINE
            yield line.decode(errors="replace")
            if left <= 0:
                yield f"(it says more than {MOST:,} bytes: the rest was not read)"
                # Its exit status is then -1.
                self.channel.close()
                return

    def close(self) -> None:
        """Close the file."""
        self._file.close()
