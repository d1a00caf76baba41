"""What a run says last: what is so now, what remains once, and whose lease was found."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.state import StateStage

from sparkwright.run import ending, failures
from sparkwright.run.lease import holder


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that a run calls at its end."""
    found: list[Any] = []
    monkeypatch.setattr(ending, "_results", {})
    monkeypatch.setattr(ending, "at_end", found.append)
    return found


def at(stage: StateStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "state", SimpleNamespace(current_stage=stage))


def test_the_results_come_last_once_a_replica_and_a_plan_has_none(
    ends: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at(StateStage.Prepare, monkeypatch)
    ending.conclude("chat", " is stopped.")
    assert ends == []
    at(StateStage.Execute, monkeypatch)
    # Both Sparks of a pair say it.
    ending.conclude("chat", " serves a-1 again.")
    ending.conclude("chat", " serves a-1 again.")
    ending.conclude("code", " is stopped.")
    (say,) = ends
    say()
    assert capsys.readouterr().out == "\nchat serves a-1 again.\ncode is stopped.\n"


def test_a_holder_is_named_with_local_time() -> None:
    now = int(time.time())
    shown = time.strftime("%d %b %H:%M", time.localtime(now))
    assert holder(f"taken by ann at vm: deploys/spark.py, 0.1.0, since {now}\n") == (
        f"ann at vm: deploys/spark.py, 0.1.0, since {shown}"
    )
    assert holder("taken by ann, since never\n") == "ann, since never"
    assert holder("taken by \n") == "nobody knows whose"
    assert holder("held\n") is None


def test_what_remains_is_said_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: dict[str, list[str]] = {}
    monkeypatch.setattr(failures, "_show", lambda host, *text: lines.update({host.name: [*text]}))
    monkeypatch.setattr(failures, "step_name", str)
    monkeypatch.setattr(failures, "_without", lambda run, host: "")
    monkeypatch.setattr(failures, "typed_line", lambda: "sparkwright apply")
    run: Any = SimpleNamespace(get_op_order=lambda: ["Fit", "Weights", "Engine"])
    told = failures.FailureReport()
    for name in ("a", "b"):
        told.operation_host_error(run, SimpleNamespace(name=name, data={}), "Fit")
    assert lines["a"] == [
        "a failed at: Fit",
        "Not done on any Spark: Weights, Engine",
        "Completed operations remain. When the cause is fixed, continue with: sparkwright apply",
    ]
    assert lines["b"] == ["b failed at: Fit"]
