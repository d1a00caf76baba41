"""The replacements for parts of pyinfra do the same, are few, and are still needed."""

import errno
import inspect
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyinfra
import pytest
from paramiko import SSHException, Transport
from paramiko.ssh_exception import NoValidConnectionsError
from pyinfra.api import Config, Inventory, State, arguments, facts, util
from pyinfra.api.util import get_operation_order_from_stack
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient import SSHClient
from pyinfra.context import ctx_config

from sparkwright.run import upstream
from sparkwright.run.ssh import cause
from sparkwright.run.upstream import Client, carry

PROJECT = Path(__file__).parents[3]
# pyinfra's own, as this module is imported before any test carries ours.
_types = upstream._global_arguments.__wrapped__
BANNER = "Error reading SSH protocol banner"


def refused(by: Exception) -> SSHException:
    """Return paramiko's error about a connection that has ended by another."""
    error = SSHException(f"{BANNER}{by}")
    error.__context__ = by
    return error


class _State:
    current_deploy_filename = __file__
    current_op_file_number = 3


# What of pyinfra is replaced, where, and the patch that would make it unnecessary.
REPLACED = {
    "SSHClient": ("run/upstream.py", "refused-login.patch"),
    "get_operation_order_from_stack": ("run/upstream.py", "operation-order.patch"),
    "pop_global_arguments": ("run/upstream.py", "host-data.patch"),
    "_do_confirm": ("run/ending.py", "question.patch"),
}
# Assignments to what belongs to pyinfra or paramiko, and uses of their private names.
FOREIGN = re.compile(
    r"^ +(?:setattr\(\w[^,]*, \"(\w+)\""
    r"|(?:operation|user|run|cli|prints|client|connector|transport|command|internal|external)"
    r"\.(\w+) = )|from (?:pyinfra|paramiko)\S* import .*\b(_\w+)",
    re.MULTILINE,
)
# pyinfra has this one for a run to set; it takes a place for no more than its caller asks.
OFFERED = {"should_raise_failed_hosts", "exec_command"}


def test_at_most_five_parts_of_pyinfra_are_replaced() -> None:
    found = {}
    for path in (PROJECT / "sparkwright").rglob("*.py"):
        for names in FOREIGN.findall(path.read_text()):
            found["".join(names)] = str(path.relative_to(PROJECT / "sparkwright"))
    for name in OFFERED:
        found.pop(name, None)
    assert found == {name: where for name, (where, _) in REPLACED.items()}
    assert len(found) <= 5
    patches = {path.name for path in (PROJECT / "docs/upstream").glob("*.patch")}
    assert patches >= {patch for _, patch in REPLACED.values()}
    told = (PROJECT / "docs/upstream/README.md").read_text()
    assert [patch for patch in patches if patch not in told] == []


@pytest.mark.parametrize(
    ("ours", "of", "text", "is_there"),
    [
        # Reads the source of each caller.
        ("operation_order", get_operation_order_from_stack, "getframeinfo", True),
        # Merges the data of a host for each argument.
        ("pop_arguments", arguments.pop_global_arguments, "getattr(host.data", True),
        # paramiko has short messages wait.
        ("_transport", inspect.getmodule(Transport), "NODELAY", False),
        # Takes a refused login for an error.
        ("Client.connect", inspect.getmodule(SSHConnector), "banner", False),
    ],
)
def test_each_part_of_theirs_is_still_as_it_was(
    ours: str, of: Any, text: str, is_there: bool
) -> None:
    """Once one fails, drop our part of that name and its patch in docs/upstream."""
    assert (text in inspect.getsource(of)) is is_there, ours


def test_pyinfra_still_computes_the_types_of_its_arguments_anew() -> None:
    """Once this fails, drop `_global_arguments` and docs/upstream/argument-types.patch."""
    assert _types() is not _types()


def test_the_order_is_pyinfras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyinfra, "is_cli", True)

    def both(state: Any) -> tuple[Any, Any]:
        return util.get_operation_order_from_stack(state), upstream.operation_order(state)

    for name, calls in ((__file__, 2), (None, 3), ("/nowhere.py", 0)):
        state = _State()
        state.current_deploy_filename = name  # type: ignore[assignment]
        theirs, ours = both(state)
        assert len(theirs) > calls
        assert ours == theirs


def test_the_arguments_are_pyinfras() -> None:
    groups = {"sparks": (["h"], {"_sudo": True, "_env": {"A": "1"}, "own": 1})}
    state = State(inventory := Inventory((["h"], {}), **groups), Config())
    host = inventory.get_host("h")
    with ctx_config.use(state.config):
        for given in ({}, {"_sudo": False, "name": "x", "other": 2}):
            theirs, ours = dict(given), dict(given)
            expected = arguments.pop_global_arguments(state, host, theirs)
            assert upstream.pop_arguments(state, host, ours) == expected
            assert ours == theirs
        found, _ = upstream.pop_arguments(state, host, {})
        assert (found["_sudo"], found["_env"]) == (True, {"A": "1"})
        # An operation that changes them changes those of nobody else.
        found["_env"]["B"] = "2"
        assert host.data._env == {"A": "1"}


def test_a_connection_sends_each_message_at_once_and_offers_nothing_weak() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as sock:
        transport = upstream._transport(sock, disabled_algorithms=upstream._WEAK)
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        offered = [*transport.preferred_kex, *transport.preferred_ciphers]
        offered += [*transport.preferred_macs, *transport.preferred_keys]
        offered += transport.preferred_pubkeys
    assert "curve25519-sha256@libssh.org" in offered
    weak = re.compile(r"sha1|md5|cbc|^ssh-rsa$")
    assert [each for each in offered if weak.search(each)] == []


def test_it_is_in_pyinfras_place() -> None:
    carry()
    carry()
    assert facts.pop_global_arguments is upstream.pop_arguments
    assert arguments.all_global_arguments() == _types()
    operation = import_module("pyinfra.api.operation")
    assert operation.get_operation_order_from_stack is upstream.operation_order
    # Of Sparks, and of jump hosts.
    assert import_module("pyinfra.connectors.ssh").SSHClient is Client
    assert import_module("pyinfra.connectors.sshuserclient.client").SSHClient is Client


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Return a function that logs in, and returns the seconds at which each try began."""

    def log_in(*outcomes: Exception | None) -> list[float]:
        begun, now, waiting = [], [0.0], iter(outcomes)

        def once(*_: Any, **options: Any) -> None:
            assert options["disabled_algorithms"]
            begun.append(now[0])
            now[0] += 0.1
            if error := next(waiting):
                raise error

        class Clock:
            monotonic = staticmethod(lambda: now[0])

            @staticmethod
            def sleep(pause: float) -> None:
                now[0] += pause

        monkeypatch.setattr(SSHClient, "connect", once)
        monkeypatch.setattr(upstream, "time", Clock)
        Client().connect("h", timeout=10)
        return begun

    return log_in


@pytest.mark.parametrize("by", [EOFError(), ConnectionResetError(104, "reset")])
def test_a_refused_login_is_tried_again(
    attempts: Callable[..., list[float]], by: Exception
) -> None:
    assert len(attempts(refused(by), refused(by), None)) == 3
    with pytest.raises(SSHException, match="banner"):
        attempts(*[refused(by)] * 1000)


@pytest.mark.parametrize("error", [SSHException("No existing session"), refused(TimeoutError())])
def test_a_login_that_fails_otherwise_is_not(
    attempts: Callable[..., list[float]], error: SSHException
) -> None:
    with pytest.raises(SSHException) as raised:
        attempts(error, None)
    assert raised.value is error


def test_an_absent_host_is_no_closed_port(attempts: Callable[..., list[float]]) -> None:
    number = errno.EHOSTUNREACH
    error = NoValidConnectionsError({("10.0.0.1", 22): OSError(number, os.strerror(number))})
    with pytest.raises(OSError, match=r"port 22 of 10\.0\.0\.1") as raised:
        attempts(error)
    assert cause(str(raised.value)).startswith("no answer: no power or no network")


# pyinfra turns bytecode off before it loads anything of ours; a person may as well.
BYTECODE = """
import sys
sys.dont_write_bytecode = True
import sparkwright.run.inventory
print(sys.dont_write_bytecode)
"""


@pytest.mark.parametrize(("options", "off"), [((), False), (("-B",), True)])
def test_pyinfra_does_not_turn_bytecode_off_and_a_person_does(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], off: bool
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    command = [sys.executable, *options, "-c", BYTECODE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(off)
