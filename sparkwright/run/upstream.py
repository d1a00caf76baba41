"""Functions that stand in the place of pyinfra's and paramiko's until releases have them.

The patches, and what each of them brings, are in docs/upstream. A test fails once one is there.
"""

import os
import re
import select
import shlex
import socket
import sys
import time
from contextlib import suppress
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from random import uniform
from types import FrameType, SimpleNamespace
from typing import Any

from paramiko import ConfigParseError, ProxyCommand, SSHException, Transport
from paramiko.ssh_exception import NoValidConnectionsError
from pyinfra.api import Host, State, arguments, facts
from pyinfra.api.util import PYINFRA_INSTALL_DIR
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import SSHClient
from pyinfra.connectors.sshuserclient.client import get_ssh_config

# Seconds between two logins. By default sshd refuses logins at random while ten others have yet to
# authenticate (sshd_config, MaxStartups): on a jump host those of a whole fleet.
_PAUSE = (0.2, 1.0)
# The words of paramiko about a server that ends a connection in place of its greeting.
_REFUSED = "Error reading SSH protocol banner"
# What paramiko 4 still offers and OpenSSH does not: signatures and exchanges by SHA-1, CBC, MD5
# (CVE-2026-44405). pyinfra allows no paramiko 5, which has dropped them.
_WEAK = {
    "kex": [
        "diffie-hellman-group-exchange-sha1",
        "diffie-hellman-group14-sha1",
        "diffie-hellman-group1-sha1",
    ],
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
    "keys": ["ssh-rsa"],
    "pubkeys": ["ssh-rsa"],
}
# Where nothing on the other side of a ProxyCommand is an SSH server.
_NO_SSH = re.compile(f"{_REFUSED}|No existing session|^ProxyCommand")


def carry() -> None:
    """Have the functions below in their place; further calls change nothing."""
    # As attributes of their package, these names are the decorators.
    operation: Any = import_module("pyinfra.api.operation")
    deploy: Any = import_module("pyinfra.api.deploy")
    operation.get_operation_order_from_stack = _order
    arguments.all_global_arguments = _global_arguments
    users: list[Any] = [arguments, deploy, facts, operation]
    for user in users:
        user.pop_global_arguments = _pop_arguments
    connector: Any = SSHConnector
    connector._connect = _connect
    client: Any = SSHClient
    client.parse_config = _parse_config
    command: Any = ProxyCommand
    command.recv, command.close = _receive, _close
    transport: Any = Transport
    transport.start_client = _start_client
    with suppress(OSError):
        # A first host key is kept there; pyinfra fails where ssh would make the folder.
        Path("~/.ssh").expanduser().mkdir(mode=0o700, exist_ok=True)


# The types of pyinfra's arguments, which it computes anew for each operation and each fact.
_global_arguments = cache(arguments.all_global_arguments)
_pop = arguments.pop_global_arguments
_log_in = SSHConnector._connect
_parse: Any = SSHClient.parse_config
_start = Transport.start_client


def _pop_arguments(
    state: State, host: Host, kwargs: dict[str, Any]
) -> tuple[arguments.AllArguments, list[str]]:
    """Return what pyinfra does, of the host's data as they are now.

    pyinfra looks for each of its arguments in the data of host and groups, which it merges anew.
    """
    known = arguments.all_argument_meta
    data = {key: copy(value) for key, value in host.data.dict().items() if key in known}
    seen: Any = SimpleNamespace(
        data=SimpleNamespace(**data), current_deploy_kwargs=host.current_deploy_kwargs
    )
    return _pop(state, seen, kwargs)


def _order(state: State) -> list[int]:
    """Return the line numbers of the calls that led to an operation, the deploy file's first.

    pyinfra reads the source file of each caller for it, which is not needed.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    names = [each.f_code.co_filename for each in frames]
    begin, deploy = 0, state.current_deploy_filename
    if deploy:
        begin = names.index(deploy) if deploy in names else len(names)
    lines = [
        each.f_lineno
        for each, name in zip(frames[begin:], names[begin:], strict=True)
        if not name.startswith(PYINFRA_INSTALL_DIR)
    ]
    return [state.current_op_file_number, *lines]


def _start_client(transport: Transport, *arguments: Any, **options: Any) -> None:
    """Negotiate with a server, with each message sent at once, and by no weak algorithm.

    By paramiko's default a second short message waits until the first is acknowledged: of a login
    twice, for 40 ms and a round trip. Through a jump host the transport has no socket.
    """
    if isinstance(transport.sock, socket.socket):
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport.disabled_algorithms = _WEAK
    _start(transport, *arguments, **options)


def _receive(command: Any, size: int) -> bytes:
    """Read what a ProxyCommand prints; paramiko does not notice its end."""
    if not select.select([command.process.stdout], [], [], command.timeout)[0]:
        raise TimeoutError
    return os.read(command.process.stdout.fileno(), size)


def _close(command: ProxyCommand) -> None:
    """End a ProxyCommand; it may have ended by itself, which paramiko takes for an error."""
    command.process.terminate()


def _parse_config(client: SSHClient, hostname: str, *arguments: Any, **options: Any) -> Any:
    """Follow the SSH configuration, and name what fails on the way to a host.

    pyinfra logs in to the jump hosts here, and takes their errors for those of the host.
    """
    try:
        return _parse(client, hostname, *arguments, **options)
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


def _why(error: Exception) -> str:
    """Return the text of an error; paramiko says the same of a closed port and an absent host."""
    if not isinstance(error, NoValidConnectionsError):
        return str(error)
    (address, port, *_), reason = next(iter(error.errors.items()))
    return f"{getattr(reason, 'strerror', reason)}: port {port} of {address}"


def _connect_once(connector: SSHConnector) -> None:
    """Log in; where pyinfra cannot follow the SSH configuration, say so, as an error of SSH."""
    try:
        _log_in(connector)
    except (ValueError, RecursionError) as error:
        raise SSHException(f"~/.ssh/config: {error}") from error
    except NoValidConnectionsError as error:
        raise OSError(_why(error)) from error
    except SSHException as error:
        way = getattr(connector.client, "_ssh_config", {}).get("sock")
        if isinstance(way, ProxyCommand) and _NO_SSH.search(str(error)):
            raise SSHException(f"ProxyCommand {shlex.join(way.cmd)}: {error}") from error
        raise


def _has_ended(error: BaseException | None) -> bool:
    """Tell whether it came of a connection that the other side has ended."""
    return error is not None and (
        isinstance(error, EOFError | ConnectionError) or _has_ended(error.__context__)
    )


def _connect(connector: SSHConnector) -> None:
    """Log in; again, for the time of a connection, where sshd has too many logins at once."""
    ends = time.monotonic() + connector.state.config.CONNECT_TIMEOUT
    while True:
        try:
            _connect_once(connector)
            return
        except SSHException as error:
            # It says the same of a server that is silent.
            if not _has_ended(error) or _REFUSED not in str(error) or time.monotonic() > ends:
                raise
            time.sleep(uniform(*_PAUSE))
