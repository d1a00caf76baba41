"""What is asked of a rollout, and what it tells."""

import json

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.rollout.record import Task, TaskReport
from sparkwright.rollout.report import plan_lines, report, table
from sparkwright.rollout.waves import Rollout
from sparkwright.run.options import RunOptions, check_force, options_of
from tests.unit.rollout.test_waves import singles


def test_what_the_command_line_asks() -> None:
    asked = RunOptions()
    assert (asked.soak, asked.minimum_speed, asked.force) == (300, None, ())
    asked = options_of({"soak": 0, "minimum_speed": 40, "force": "a,b"})
    assert (asked.soak, asked.minimum_speed, asked.force) == (0, 40, ("a", "b"))
    # Of a large model on a busy Spark, say.
    assert options_of({"minimum_speed": 0.8}).minimum_speed == 0.8
    with pytest.raises(PlanError) as error:
        options_of({"soak": "long", "minimum_speed": -1})
    assert set(error.value.problems) == {
        "--data soak: found 'long'; expected seconds, such as 300",
        "--data minimum_speed: found -1; expected tokens a second, such as 40",
    }
    for soak in (True, -1, float("nan"), float("inf"), [300]):
        with pytest.raises(PlanError, match="--data soak: found"):
            options_of({"soak": soak})


def test_a_replica_that_is_forced_is_one_of_the_run() -> None:
    check_force(["chat"], ["chat"])
    with pytest.raises(PlanError) as error:
        check_force(["chaat", "chat"], ["chat"])
    assert error.value.problems == ("--data force: found 'chaat'; did you mean 'chat'?",)


def test_the_report_is_whole_at_any_time() -> None:
    fails = {(Task.SWITCH, "b"): TaskReport(problem="no token", restored=True, seconds=7.0)}
    rollout = singles("a", "b", "c", fails=fails).play()
    asked = RunOptions(soak=5)
    told = json.loads(json.dumps(report(rollout, asked, "T0", "T1")))
    assert told["stopped"] == "replica b: no token"
    assert told["waves"] == [["a"], ["b"], ["c"]]
    assert [each["result"] for each in told["replicas"]] == [
        "switched",
        "failed, the previous release serves",
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
