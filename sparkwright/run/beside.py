"""A command on a Spark that runs beside the operations, by the connection that the run has."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paramiko import SSHClient, SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import make_unix_command_for_host

from sparkwright.common.operations import uses_sudo

# The errors of a command or a connection that has ended.
LOSSES = (OSError, EOFError, SSHException)
# Bytes of a line that a command says, and of its errors.
_MOST = 4096


def run_beside(spark: Host, command: StringCommand, patience: float) -> Local | Remote:
    """Run a command, as root if the inventory sets `_sudo`; LOSSES where the connection has ended.

    Args:
        patience: Seconds in which it takes what is written, says a line, or ends.
    """
    words = make_unix_command_for_host(
        spark.state, spark, command, _sudo=uses_sudo(spark)
    ).get_raw_value()
    client = getattr(spark.connector, "client", None)
    return Remote(client, words, patience) if client else Local(words, patience)


class Local:
    """A command on this machine; `input` is its standard input."""

    def __init__(self, command: str, patience: float) -> None:
        pipe, self._patience = subprocess.PIPE, patience
        self._process: Any = subprocess.Popen(
            ["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe
        )
        self.input: Any = self._process.stdin

    def read_line(self) -> str:
        """Return the first line that it says, or the beginning of a long one."""
        return str(self._process.stdout.readline(_MOST), errors="replace")

    def is_lost(self) -> bool:
        """Tell whether it has ended, although the Spark can be reached."""
        return bool(self._process.poll() is not None)

    def end(self) -> tuple[int, bytes]:
        """End its input; return its exit status, -1 if that is unknown, and its errors."""
        with suppress(OSError):
            self.input.close()
        with suppress(OSError, subprocess.TimeoutExpired):
            said = self._process.stderr.read(_MOST)
            return self._process.wait(self._patience), said
        return -1, b""

    def close(self) -> None:
        """End it, whatever it still does."""
        with self._process:
            self.end()


class Remote:
    """The same on a Spark that is reached by SSH; SFTP would need the login to be root's."""

    def __init__(self, client: SSHClient, command: str, patience: float) -> None:
        transport = client.get_transport()
        if transport is None:
            raise EOFError
        self._transport, self._patience = transport, patience
        self._channel = transport.open_session(timeout=patience)
        self._channel.settimeout(patience)
        self._channel.exec_command(command)
        self.input: Any = self._channel.makefile_stdin("wb")

    def read_line(self) -> str:
        line = self._receive(self._channel.recv, b"\n")
        return line.partition(b"\n")[0].decode(errors="replace")

    def is_lost(self) -> bool:
        return self._channel.exit_status_ready() and self._transport.is_active()

    def end(self) -> tuple[int, bytes]:
        with suppress(*LOSSES):
            self.input.close()
        with suppress(*LOSSES):
            said = self._receive(self._channel.recv_stderr)
            # It is set by the end of the connection as well.
            self._channel.status_event.wait(self._patience)
            return self._channel.exit_status, said
        return -1, b""

    def close(self) -> None:
        self._channel.close()

    def _receive(self, receive: Callable[[int], bytes], last: bytes | None = None) -> bytes:
        """Return what it says up to some last bytes, or its end, for `patience` seconds in all."""
        said, ends = b"", time.monotonic() + self._patience
        while len(said) < _MOST and not (last and last in said):
            self._channel.settimeout(max(0.0, ends - time.monotonic()))
            if not (part := receive(_MOST)):
                break
            said += part
        self._channel.settimeout(self._patience)
        return said
