"""How a run reads a Spark: at once what its steps expect, and anew what may have changed."""

from collections.abc import Generator
from typing import Any, ClassVar

import pytest
from pyinfra import host
from pyinfra.api import StringCommand, operation

from sparkwright.common.part import Part
from sparkwright.run import state
from sparkwright.run.state import connection_of, expect, read, read_now
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
    state = {"one": answer, "two": {"value": 2}}
    assert fake_host(state=state).run(reads, steps="expect 2").did_succeed()
    assert not fake_host(state=state).run(reads, steps="expect 2 1").is_complete()
    assert "one" in caplog.text
    assert "Traceback" not in caplog.text
