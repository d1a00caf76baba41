"""The replacements for parts of pyinfra, until a release has what docs/upstream proposes.

A test counts them, and fails once a release has one.
"""

import re
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from random import uniform
from traceback import walk_stack
from types import SimpleNamespace
from typing import Any

from paramiko import ConfigParseError, ProxyCommand, SSHException, Transport
from paramiko.ssh_exception import NoValidConnectionsError
from pyinfra.api import Host, State, arguments, facts
from pyinfra.api.util import PYINFRA_INSTALL_DIR
from pyinfra.connectors.sshuserclient import SSHClient
from pyinfra.connectors.sshuserclient.client import get_ssh_config

# Seconds between signs of life, and without an answer to one until the link counts as dead.
KEEPALIVE, DEAD_AFTER = 15, 60
# Seconds after which paramiko's reader of a silent connection looks for work of its own, such as
# that sign of life. Its default of 0.1 s was a fifth of the processor time of a fleet's run.
_POLL = 1
# Seconds between two logins. By default sshd refuses logins at random while ten others have yet to
# authenticate (sshd_config, MaxStartups): on a jump host those of a whole fleet.
_PAUSE = (0.2, 1.0)
# Seconds for which a refused login is tried again, where the run sets no time for connections.
_PATIENCE = 10
# The words of paramiko about a server that ends a connection in place of its greeting.
_REFUSED = "Error reading SSH protocol banner"
# Where nothing on the other side of a ProxyCommand is an SSH server.
_NO_SSH = re.compile(f"{_REFUSED}|No existing session|^ProxyCommand")
# What paramiko 4 still offers and OpenSSH does not: signatures and exchanges by SHA-1, CBC, MD5
# (CVE-2026-44405). pyinfra allows no paramiko 5, which has dropped them.
_WEAK = {
    "kex": [f"diffie-hellman-{group}-sha1" for group in ("group-exchange", "group14", "group1")],
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
    "keys": ["ssh-rsa"],
    "pubkeys": ["ssh-rsa"],
}


def carry() -> None:
    """Put the replacements in place; further calls change nothing."""
    # As attributes of their package, these names are other things.
    for module in ("pyinfra.connectors.ssh", "pyinfra.connectors.sshuserclient.client"):
        setattr(import_module(module), "SSHClient", Client)  # noqa: B010
    operation: Any = import_module("pyinfra.api.operation")
    operation.get_operation_order_from_stack = operation_order
    arguments.all_global_arguments = _global_arguments
    users: list[Any] = [import_module("pyinfra.api.deploy"), facts, operation]
    for user in users:
        user.pop_global_arguments = pop_arguments
    with suppress(OSError):
        # A first host key is kept there; pyinfra fails where ssh would make the folder.
        Path("~/.ssh").expanduser().mkdir(mode=0o700, exist_ok=True)


def operation_order(state: State) -> list[int]:
    """Return the lines of the calls that led to an operation: pyinfra reads each source for it."""
    calls = [(frame.f_code.co_filename, line) for frame, line in walk_stack(sys._getframe(1))]
    calls.reverse()
    begin, deploy = 0, state.current_deploy_filename
    if deploy:
        names = [name for name, _ in calls]
        begin = names.index(deploy) if deploy in names else len(names)
    lines = [line for name, line in calls[begin:] if not name.startswith(PYINFRA_INSTALL_DIR)]
    return [state.current_op_file_number, *lines]


# The types of pyinfra's arguments, which it computes anew for each operation and each fact.
_global_arguments = cache(arguments.all_global_arguments)


def pop_arguments(
    state: State, host: Host, kwargs: dict[str, Any]
) -> tuple[arguments.AllArguments, list[str]]:
    """Return what pyinfra does, which merges the data of host and groups for each argument."""
    known = arguments.all_argument_meta
    data = {key: copy(value) for key, value in host.data.dict().items() if key in known}
    seen: Any = SimpleNamespace(
        data=SimpleNamespace(**data), current_deploy_kwargs=host.current_deploy_kwargs
    )
    return arguments.pop_global_arguments(state, seen, kwargs)


# Bytes of one command's standard output, or of its errors. Our largest outputs are a Spark's
# journal, 3,000 lines of a few hundred bytes, and the result of a benchmark, up to 2 MB.
MOST = 16 << 20
# Bytes that each line counts beside its own, as pyinfra keeps it as an object.
_LINE = 500


class Client(SSHClient):
    """pyinfra's SSH client, of Sparks and jump hosts, with the bounds and messages of a run."""

    def exec_command(self, *arguments: Any, **options: Any) -> Any:
        """Run a command, of whose output pyinfra keeps `MOST` bytes, also those that are no UTF-8.

        A host that prints without end would use up this machine's memory.
        """
        stdin, stdout, _ = super().exec_command(*arguments, **options)
        channel = stdout.channel
        outputs = channel.makefile("rb"), channel.makefile_stderr("rb")
        return stdin, *(BoundedLines(file, channel) for file in outputs)

    def connect(self, hostname: str, *arguments: Any, **options: Any) -> None:
        """Log in; again, for the time of a connection, where sshd has too many logins at once."""
        ends = time.monotonic() + (options.get("timeout") or _PATIENCE)
        while True:
            try:
                self._log_in(hostname, *arguments, **options)
                break
            except SSHException as error:
                if not _is_refused(error) or time.monotonic() > ends:
                    raise
                time.sleep(uniform(*_PAUSE))
        if transport := self.get_transport():
            _notice_its_end(transport)

    def _log_in(self, *arguments: Any, **options: Any) -> None:
        options |= {"disabled_algorithms": _WEAK, "transport_factory": _transport}
        try:
            super().connect(*arguments, **options)  # type: ignore[no-untyped-call]
        except (ValueError, RecursionError) as error:
            raise SSHException(f"~/.ssh/config: {error}") from error
        except NoValidConnectionsError as error:
            raise OSError(_why(error)) from error
        except SSHException as error:
            way = getattr(self, "_ssh_config", {}).get("sock")
            if isinstance(way, ProxyCommand) and _NO_SSH.search(str(error)):
                raise SSHException(f"ProxyCommand {shlex.join(way.cmd)}: {error}") from error
            raise

    def parse_config(self, hostname: str, *arguments: Any, **options: Any) -> Any:
        """Follow the SSH configuration, and name what fails on the way to a host.

        pyinfra logs in to the jump hosts here, and takes their errors for those of the host.
        """
        try:
            found: Any = super().parse_config(hostname, *arguments, **options)  # type: ignore[no-untyped-call]
        except (OSError, SSHException) as error:
            if isinstance(error, ConfigParseError) or str(error).startswith("jump host "):
                raise
            config = get_ssh_config(options.get("ssh_config_file"))
            way: Any = config.lookup(hostname) if config else {}
            if "proxycommand" in way:
                raise SSHException(f"ProxyCommand {way['proxycommand']}: {_why(error)}") from error
            if "proxyjump" in way:
                raise SSHException(f"jump host {way['proxyjump']}: {_why(error)}") from error
            raise
        command: Any = found[1].get("sock")
        if isinstance(command, ProxyCommand):
            # It may have ended by itself, which paramiko takes for an error.
            vars(command)["close"] = command.process.terminate
        return found


class BoundedLines:
    """The lines of a command's output, as text; the command fails if there are too many."""

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
        self._file.close()


def _transport(sock: Any, **options: Any) -> Transport:
    """Return a transport that sends each message at once; through a jump host it has no socket.

    By paramiko's default a second short message waits until the first is acknowledged: of a login
    twice, for 40 ms and a round trip.
    """
    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Transport(sock, **options)


def _notice_its_end(transport: Transport) -> None:
    """Notice a dead link within a minute: paramiko waits for ever for a host without power."""
    if isinstance(transport.sock, socket.socket):
        transport.sock.settimeout(_POLL)
        transport.set_keepalive(KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            transport.sock.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER * 1000
            )


def _is_refused(error: SSHException) -> bool:
    """Tell whether a server has ended the connection; paramiko says the same of a silent one."""
    said = str(error)
    return _REFUSED in said and not said.startswith("jump host ") and _has_ended(error)


def _has_ended(error: BaseException | None) -> bool:
    return error is not None and (
        isinstance(error, EOFError | ConnectionError) or _has_ended(error.__context__)
    )


def _why(error: Exception) -> str:
    """Return the text of an error; paramiko's own is alike for a closed port and an absent host."""
    if not isinstance(error, NoValidConnectionsError):
        return str(error)
    (address, port, *_), reason = next(iter(error.errors.items()))
    return f"{getattr(reason, 'strerror', reason)}: port {port} of {address}"
