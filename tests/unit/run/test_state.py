"""How a run reads a Spark, and when anew; when its connection is lost, and what is said of why."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from paramiko import AuthenticationException, SSHException
from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.part import Part
from sparkwright.run import state
from sparkwright.run.ssh import Login, cause
from sparkwright.run.state import SparkConnection, connection_of, expect, read, read_now
from tests.unit.driven import fake_host


class One(Part):
    part: ClassVar = "one"

    value: int


class Two(One):
    part: ClassVar = "two"


@operation()
def reads(steps: str) -> Generator[StringCommand]:
    """Read parts one and two, or "now" one; change something at "!"."""
    for step in steps.split():
        if step == "!":
            yield StringCommand("true")
        elif step == "now":
            read_now(host, One.ask())
        elif step == "expect":
            expect(host.state.inventory.get_host(host.name), lambda: [One.ask(), Two.ask()])
        else:
            read(
                host,
                {"1": One, "2": Two, "other": One}[step].ask(
                    **({"a": 1} if step == "other" else {})
                ),
            )


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        ("1 1 2", [["one"], ["two"]]),
        ("expect 1 2 1", [["one", "two"]]),
        ("expect 2 1", [["two", "one"]]),
        ("expect 1 ! 1 2 1", [["one", "two"], ["one"], ["two"]]),
        ("1 other 1", [["one"], ["one"]]),
        ("1 now now 1", [["one"], ["one"], ["one"]]),
    ],
)
def test_what_is_read_serves_until_something_changes(steps: str, asked: list[list[str]]) -> None:
    spark = fake_host(state={"one": {"value": 1}, "two": {"value": 2}})
    assert spark.run(reads, steps=steps).did_succeed()
    assert spark.asked == asked


def test_an_answer_serves_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FRESH", 0)
    spark = fake_host(state={"one": {"value": 1}})
    assert spark.run(reads, steps="1 1").did_succeed()
    assert spark.asked == [["one"], ["one"]]


def test_what_is_read_while_something_changes_serves_nobody_later() -> None:
    with fake_host().current() as spark:
        own = connection_of(spark)

        def changes(*_: object, **__: object) -> bool:
            own.remember({"key": "half of it"})
            assert own.known("key")
            return True

        own._connector.put_file = changes
        assert own.put_file("x", "y")
        assert own.known("key") is None


@pytest.mark.parametrize("answer", [{"value": "1"}, {}, None, {"value": 1, "more": 2}])
def test_a_part_that_is_no_good_fails_its_host_and_no_other_part(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    parts = {"one": answer, "two": {"value": 2}}
    assert fake_host(state=parts).run(reads, steps="expect 2").did_succeed()
    assert not fake_host(state=parts).run(reads, steps="expect 2 1").is_complete()
    assert "one" in caplog.text
    assert "Traceback" not in caplog.text


class Lost(Exception):
    """What ends the host's part of a run."""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a watched connection whose answers, and whether it is there, a test sets."""
    now = SimpleNamespace(there=True, answer=True)

    def answer(*_: object, **__: object) -> Any:
        if isinstance(now.answer, Exception):
            raise now.answer
        return now.answer

    connector = SimpleNamespace(
        run_shell_command=answer,
        put_file=answer,
        get_file=answer,
        client=SimpleNamespace(
            get_transport=lambda: SimpleNamespace(
                is_active=lambda: now.there, join=lambda seconds: None
            )
        ),
    )
    monkeypatch.setattr(state, "partners", lambda _: [])
    monkeypatch.setattr(state, "planning", lambda: True)
    monkeypatch.setattr(state, "lost_error", lambda spark, error: Lost(error))
    spark: Any = SimpleNamespace(connector=None)
    return now, SparkConnection(spark, connector)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        *(
            (call, error)
            for call in ("run_shell_command", "put_file", "get_file")
            for error in (
                SSHException("SSH session not active"),
                PyinfraError("no SFTP"),
                KeyError(),
            )
        ),
        # Nor does a command that was under way have an exit status; an upload says no.
        ("run_shell_command", (False, [])),
        ("put_file", False),
    ],
)
def test_what_fails_is_a_loss_where_the_connection_is_gone(
    watched: Any, call: str, answer: Any
) -> None:
    now, connection = watched
    now.answer = answer
    if isinstance(answer, Exception):
        with pytest.raises(type(answer)):
            getattr(connection, call)("x")
    else:
        assert getattr(connection, call)("x") == answer
    now.there = False
    with pytest.raises(Lost):
        getattr(connection, call)("x")
    now.answer = (True, ["said before"])
    assert connection.run_shell_command("x") == (True, ["said before"])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("", "no power, no network, or a reboot"),
        ("Could not connect ([Errno 111] Connection refused)", "it refuses the connection"),
        ("Could not connect (timed out)", "no answer: no power or no network"),
        (f"Authentication error (username=ann) ({AuthenticationException('x')})", "this SSH key"),
        ("Authentication error (username=me)", "ssh-copy-id -p 2222 me@10.0.0.1, or correct"),
        ("Could not resolve hostname (x)", "its host name 10.0.0.1 does not resolve"),
        ("SSH error (Error reading SSH protocol banner)", "the connection broke"),
        ("Could not connect ([Errno 2] No such file: '/x')", "a file that ~/.ssh/config names"),
        ("something else", "something else"),
    ],
)
def test_each_error_is_told_with_what_it_means(error: str, words: str) -> None:
    told = cause(error, Login("10.0.0.1", "me", 2222))
    assert words in told
    assert error in told
