"""Functions that stand in the place of pyinfra's and paramiko's until releases have them.

The patches, and what each of them brings, are in docs/upstream. A test fails once one is there.
"""

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

from paramiko import SSHException, Transport
from pyinfra.api import Host, State, arguments, facts
from pyinfra.api.util import PYINFRA_INSTALL_DIR
from pyinfra.connectors.ssh import SSHConnector

# Seconds between two logins. By default sshd refuses logins at random while ten others have yet to
# authenticate (sshd_config, MaxStartups): on a jump host those of a whole fleet.
_PAUSE = (0.2, 1.0)
# The words of paramiko about a server that ends a connection in place of its greeting.
_REFUSED = "Error reading SSH protocol banner"


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
    transport: Any = Transport
    transport.start_client = _start_client
    with suppress(OSError):
        # A first host key is kept there; pyinfra fails where ssh would make the folder.
        Path("~/.ssh").expanduser().mkdir(mode=0o700, exist_ok=True)


# The types of pyinfra's arguments, which it computes anew for each operation and each fact.
_global_arguments = cache(arguments.all_global_arguments)
_pop = arguments.pop_global_arguments
_log_in = SSHConnector._connect
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
    """Negotiate with a server, with each message sent at once.

    By paramiko's default a second short message waits until the first is acknowledged: of a login
    twice, for 40 ms and a round trip. Through a jump host the transport has no socket.
    """
    if isinstance(transport.sock, socket.socket):
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _start(transport, *arguments, **options)


def _connect_once(connector: SSHConnector) -> None:
    """Log in; where pyinfra cannot follow the SSH configuration, say so, as an error of SSH."""
    try:
        _log_in(connector)
    except (ValueError, RecursionError) as error:
        raise SSHException(f"~/.ssh/config: {error}") from error


def _connect(connector: SSHConnector) -> None:
    """Log in; again, for twice the time of a connection, where sshd has too many logins at once."""
    ends = time.monotonic() + 2 * connector.state.config.CONNECT_TIMEOUT
    while True:
        try:
            _connect_once(connector)
            return
        except SSHException as error:
            # It says the same of a server that is silent.
            ended = isinstance(error.__context__, EOFError | ConnectionError)
            if not ended or _REFUSED not in str(error) or time.monotonic() > ends:
                raise
            time.sleep(uniform(*_PAUSE))
