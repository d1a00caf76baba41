"""What the doctor says of the Sparks of a group that are not there, and what it offers."""

from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor import deploy
from tests.makers.doctor import HEALTHY, UNIT
from tests.makers.models import changed

SPARKS = ("a", "b", "c")


def missing(*names: str) -> EngineUnit:
    told = "; ".join(f"missing for 15 min: {each} at 10.0.0.3: no answer" for each in names)
    return changed(UNIT, active="activating", status=told or "waiting for c at 10.0.0.3: no answer")


def told(
    monkeypatch: pytest.MonkeyPatch, own: EngineUnit, peers: dict[str, EngineUnit]
) -> list[tuple[str, bool]]:
    """Return the causes that the doctor names on Spark a, each with whether it offers a way on.

    Args:
        peers: the units of the other Sparks that answer, of which each has another replica as well.
    """

    def seats(name: str) -> Any:
        here = SimpleNamespace(host=name, replica="chat", place=f"/{name}/chat")
        other = SimpleNamespace(host=name, replica="batch", place=f"/{name}/batch")
        return SimpleNamespace(seats=[other, here])

    def read(host: str, ask: Any) -> Any:
        assert ask.arguments["root"] == f"/{host}/chat"
        return changed(HEALTHY, unit=peers[host])

    failed = [each for each in SPARKS[1:] if each not in peers]
    hosts = SimpleNamespace(active_hosts=[*peers], failed_hosts=failed)
    for name, value in {"state": hosts, "target_of": seats, "read": read}.items():
        monkeypatch.setattr(deploy, name, value)
    monkeypatch.setattr(deploy, "spark_name", str)
    monkeypatch.setattr(deploy, "why_silent", lambda _: "no answer")
    spark: Any = SimpleNamespace(ranks=SPARKS, peers=SPARKS[1:], spark="a", replica="chat")
    spark.offer = lambda lost: f"Without {' and '.join(lost)}"
    checkup = changed(HEALTHY, unit=own)
    return [(each.name, "Without c" in each.remedy) for each in deploy._absent(spark, checkup)]


def test_a_spark_that_is_missed_for_long_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch, missing("c"), {"b": missing()})
    assert found == [("spark-silent", True)]
    found = told(monkeypatch, missing("c"), {"b": missing(), "c": missing()})
    assert found == [("spark-missing", True)]


def test_one_that_does_not_answer_may_be_about_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, missing(), {"b": missing()}) == [("spark-silent", False)]


def test_nobody_is_left_out_of_what_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by one that is back, and misses those who serve without it."""
    assert told(monkeypatch, UNIT, {"b": UNIT}) == [("spark-silent", False)]
    found = told(monkeypatch, missing("c", "b"), {"b": UNIT, "c": UNIT})
    assert found == [("spark-missing", False), ("spark-missing", False)]
