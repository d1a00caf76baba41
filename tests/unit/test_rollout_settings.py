"""What is asked of a rollout, and what it tells."""

import json

import pytest

from deploys.plan.errors import PlanError
from deploys.plan.rollout_record import Report, Task
from deploys.plan.rollout_report import plan_lines, report, table
from deploys.plan.rollout_settings import Settings, settings
from deploys.plan.waves import Rollout
from tests.unit.test_waves import singles


def test_what_the_command_line_asks() -> None:
    assert settings({}, ["a"]) == Settings(300, None, frozenset())
    asked = settings({"soak": 0, "minimum_speed": 40, "force": "a,b"}, ["a", "b"])
    assert asked == Settings(0, 40, frozenset("ab"))
    # Of a large model on a busy Spark, say.
    assert settings({"minimum_speed": 0.8}, []).minimum_speed == 0.8
    with pytest.raises(PlanError) as error:
        settings({"soak": "long", "minimum_speed": -1, "force": "chaat"}, ["chat"])
    assert error.value.problems == (
        "--data force: found chaat; expected one of chat; did you mean 'chat'?",
        "--data soak: found long; expected seconds, such as 300",
        "--data minimum_speed: found -1; expected tokens a second, such as 40",
    )
    for soak in (True, -1, float("nan"), float("inf"), [300]):
        with pytest.raises(PlanError, match="--data soak: found"):
            settings({"soak": soak}, [])


def test_the_report_is_whole_at_any_time() -> None:
    fails = {(Task.SWITCH, "b"): Report(problem="no token", restored=True, seconds=7.0)}
    rollout = singles("a", "b", "c", fails=fails).play()
    asked = Settings(5, None, frozenset())
    told = json.loads(json.dumps(report(rollout, asked, "T0", "T1")))
    assert told["stopped"] == "replica b: no token"
    assert told["waves"] == [["a"], ["b"], ["c"]]
    assert [each["result"] for each in told["replicas"]] == [
        "switched",
        "failed, the former serves",
        "not reached",
    ]
    assert told["replicas"][1]["seconds"] == 7.0
    lines = table(rollout)
    assert [line.split()[0] for line in lines] == ["replica", "a", "b", "c", "Stopped:"]
    assert [line.split()[-1] for line in lines[1:4]] == ["new", "old", "old"]
    begun = Rollout({"a": ("a",)})
    json.dumps(report(begun, asked, "T0"))
    assert table(begun)[1].split() == ["a", "a", "not", "reached", "nothing"]


def test_the_plan_is_told_before() -> None:
    fleet = singles("a", "b")
    fleet.serves["b"] = "new"
    assert plan_lines(fleet.play()) == [
        "wave 1 of 1: a (old -> new)",
        "serves it already: b",
    ]
