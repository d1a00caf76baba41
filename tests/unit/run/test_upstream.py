"""The functions in pyinfra's and paramiko's place do the same, and releases still lack them."""

import errno
import inspect
import os
import re
import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pyinfra
import pytest
from paramiko import SSHException, Transport
from paramiko.ssh_exception import NoValidConnectionsError
from pyinfra.api import Config, Inventory, State, arguments, facts, util
from pyinfra.api.util import get_operation_order_from_stack
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.context import ctx_config

from sparkwright.run import upstream
from sparkwright.run.lost import cause
from sparkwright.run.upstream import carry

# pyinfra's own, as this module is imported before any test carries ours.
_types = upstream._global_arguments.__wrapped__
BANNER = "Error reading SSH protocol banner"


def refused(by: Exception) -> SSHException:
    """Return paramiko's error about a connection that has ended by another."""
    error = SSHException(f"{BANNER}{by}")
    error.__context__ = by
    return error


class _Connector:
    class state:
        class config:
            CONNECT_TIMEOUT = 10


class _State:
    current_deploy_filename = __file__
    current_op_file_number = 3


def test_pyinfra_still_reads_the_source_of_each_caller() -> None:
    """Once this fails, drop `_order` and docs/upstream/operation-order.patch."""
    assert "getframeinfo" in inspect.getsource(get_operation_order_from_stack)


def test_pyinfra_still_computes_the_types_of_its_arguments_anew() -> None:
    """Once this fails, drop `_global_arguments` and docs/upstream/argument-types.patch."""
    assert _types() is not _types()


def test_pyinfra_still_merges_the_data_of_a_host_for_each_argument() -> None:
    """Once this fails, drop `_pop_arguments` and docs/upstream/host-data.patch."""
    assert "getattr(host.data" in inspect.getsource(upstream._pop)


def test_paramiko_still_has_short_messages_wait() -> None:
    """Once this fails, drop `_start_client` and docs/upstream/no-delay.patch."""
    assert "NODELAY" not in inspect.getsource(inspect.getmodule(Transport))  # type: ignore[arg-type]


def test_pyinfra_still_takes_a_refused_login_for_an_error() -> None:
    """Once this fails, drop `_connect` and docs/upstream/refused-login.patch."""
    assert "banner" not in inspect.getsource(inspect.getmodule(SSHConnector))  # type: ignore[arg-type]


def test_the_order_is_pyinfras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyinfra, "is_cli", True)

    def both(state: Any) -> tuple[Any, Any]:
        return util.get_operation_order_from_stack(state), upstream._order(state)

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
            expected = upstream._pop(state, host, theirs)
            assert upstream._pop_arguments(state, host, ours) == expected
            assert ours == theirs
        found, _ = upstream._pop_arguments(state, host, {})
        assert (found["_sudo"], found["_env"]) == (True, {"A": "1"})
        # An operation that changes them changes those of nobody else.
        found["_env"]["B"] = "2"
        assert host.data._env == {"A": "1"}


def test_a_connection_sends_each_message_at_once_and_offers_nothing_weak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(transport: Transport, timeout: float) -> None:
        found.append(transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        offered.extend([*transport.preferred_kex, *transport.preferred_ciphers])
        offered.extend([*transport.preferred_macs, *transport.preferred_keys])
        offered.extend(transport.preferred_pubkeys)

    found: list[int] = []
    offered: list[str] = []
    monkeypatch.setattr(upstream, "_start", start)
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as sock:
        upstream._start_client(Transport(sock), timeout=1)
    assert found == [1]
    assert "curve25519-sha256@libssh.org" in offered
    weak = re.compile(r"sha1|md5|cbc|^ssh-rsa$")
    assert [each for each in offered if weak.search(each)] == []


def test_it_is_in_pyinfras_place() -> None:
    carry()
    carry()
    assert facts.pop_global_arguments is upstream._pop_arguments
    assert arguments.all_global_arguments() == _types()
    assert import_module("pyinfra.api.operation").get_operation_order_from_stack is upstream._order
    assert SSHConnector._connect.__module__ == upstream.__name__
    assert Transport.start_client is upstream._start_client


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Return a function that logs in, and returns the seconds at which each try began."""

    def log_in(*outcomes: Exception | None) -> list[float]:
        begun, now, waiting = [], [0.0], iter(outcomes)

        def once(_: Any) -> None:
            begun.append(now[0])
            now[0] += 0.1
            if error := next(waiting):
                raise error

        class Clock:
            monotonic = staticmethod(lambda: now[0])

            @staticmethod
            def sleep(pause: float) -> None:
                now[0] += pause

        monkeypatch.setattr(upstream, "_connect_once", once)
        monkeypatch.setattr(upstream, "time", Clock)
        upstream._connect(_Connector())  # type: ignore[arg-type]
        return begun

    return log_in


@pytest.mark.parametrize("by", [EOFError(), ConnectionResetError(104, "reset")])
def test_a_refused_login_is_tried_again(
    attempts: Callable[..., list[float]], by: Exception
) -> None:
    assert len(attempts(refused(by), refused(by), None)) == 3


@pytest.mark.parametrize("error", [SSHException("No existing session"), refused(TimeoutError())])
def test_a_login_that_fails_otherwise_is_not(
    attempts: Callable[..., list[float]], error: SSHException
) -> None:
    with pytest.raises(SSHException) as raised:
        attempts(error, None)
    assert raised.value is error


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EHOSTUNREACH, "no answer: no power or no network"),
        (errno.ECONNREFUSED, "it refuses the connection: is it on and booted"),
    ],
)
def test_an_absent_host_is_no_closed_port(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def log_in(connector: object) -> None:
        raise NoValidConnectionsError({("10.0.0.1", 22): OSError(number, os.strerror(number))})

    monkeypatch.setattr(upstream, "_log_in", log_in)
    with pytest.raises(OSError, match=r"port 22 of 10\.0\.0\.1") as raised:
        upstream._connect_once(_Connector())  # type: ignore[arg-type]
    assert cause(str(raised.value)).startswith(said)


def test_a_server_that_refuses_all_is_given_up(attempts: Callable[..., list[float]]) -> None:
    with pytest.raises(SSHException, match="banner"):
        attempts(*[refused(EOFError())] * 1000)
