"""The bounds of a host's answer to one command."""

from collections.abc import Callable, Iterator
from typing import Any

from pyinfra.api import Host

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
    if client is not None and not isinstance(client.exec_command, _Bounded):
        client.exec_command = _Bounded(client.exec_command)


class _Bounded:
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
