"""A Spark that is lost: when a connection counts as gone, and what is said of why."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko import AuthenticationException, SSHException
from pyinfra.api.exceptions import PyinfraError

from sparkwright.run import state as watching
from sparkwright.run.ssh import Login, cause
from sparkwright.run.state import SparkConnection


class Lost(Exception):
    """What ends the host's part of a run."""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a watched connection whose answers, and whether it is there, a test sets."""
    state = SimpleNamespace(there=True, answer=True)

    def answer(*_: object, **__: object) -> Any:
        if isinstance(state.answer, Exception):
            raise state.answer
        return state.answer

    connector = SimpleNamespace(
        run_shell_command=answer,
        put_file=answer,
        get_file=answer,
        client=SimpleNamespace(
            get_transport=lambda: SimpleNamespace(
                is_active=lambda: state.there, join=lambda seconds: None
            )
        ),
    )
    monkeypatch.setattr(watching, "partners", lambda _: [])
    monkeypatch.setattr(watching, "planning", lambda: True)
    monkeypatch.setattr(watching, "lost_error", lambda spark, error: Lost(error))
    spark: Any = SimpleNamespace(connector=None)
    return state, SparkConnection(spark, connector)


@pytest.mark.parametrize("call", ["run_shell_command", "put_file", "get_file"])
@pytest.mark.parametrize(
    "error",
    [
        SSHException("SSH session not active"),
        EOFError(),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError("timed out"),
        OSError("Socket is closed"),
        PyinfraError("Unable to establish SFTP connection"),
        RuntimeError("what nobody expects"),
    ],
)
def test_an_error_counts_as_a_loss_where_the_connection_is_gone(
    watched: Any, call: str, error: Exception
) -> None:
    state, connection = watched
    state.answer = error
    with pytest.raises(type(error)):
        getattr(connection, call)("x")
    state.there = False
    with pytest.raises(Lost):
        getattr(connection, call)("x")


def test_what_fails_without_a_word_does_so_too(watched: Any) -> None:
    """A command that was under way has no exit status; an upload says no."""
    state, connection = watched
    for call, failed in (("run_shell_command", (False, [])), ("put_file", False)):
        state.there, state.answer = True, failed
        assert getattr(connection, call)("x") == failed
        state.there = False
        with pytest.raises(Lost):
            getattr(connection, call)("x")
    state.answer = (True, ["said before"])
    assert connection.run_shell_command("x") == (True, ["said before"])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("", "no power, no network, or a reboot"),
        ("[Errno 104] Connection reset by peer", "no power, no network, or a reboot"),
        ("Could not connect ([Errno 111] Connection refused)", "it refuses the connection"),
        ("Could not connect ([Errno None] Unable to connect to port 22 on 10.0.0.2)", "is it on"),
        ("Connection refused: port 2222 of 10.0.0.1", "are ssh_hostname and ssh_port right?"),
        ("Could not connect (timed out)", "no answer: no power or no network"),
        ("Could not connect ([Errno 113] No route to host)", "no answer: no power or no network"),
        (f"Authentication error (username=ann) ({AuthenticationException('x')})", "this SSH key"),
        ("Authentication error (username=me)", "ssh-copy-id -p 2222 me@10.0.0.1, or correct"),
        ("SSH error (No authentication methods available)", "then ssh-copy-id -p 2222 me@10.0.0.1"),
        ("SSH host key error (does not match)", "ssh-keygen -R '[10.0.0.1]:2222'"),
        ("Could not resolve hostname (x)", "its host name 10.0.0.1 does not resolve"),
        ("SSH error (Error reading SSH protocol banner)", "the connection broke"),
        ("SSH error (Error reading SSH protocol banner)", "does it boot, and is ssh_port right?"),
        ("SSH error (~/.ssh/config: maximum recursion)", "a `Host *` with a ProxyJump would jump"),
        ("Could not connect ([Errno 2] No such file: '/x')", "a file that ~/.ssh/config names"),
        ("something else", "something else"),
    ],
)
def test_each_error_is_told_with_what_it_means(error: str, words: str) -> None:
    told = cause(error, Login("10.0.0.1", "me", 2222))
    assert words in told
    assert error in told
