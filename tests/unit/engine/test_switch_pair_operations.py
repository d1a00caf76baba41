"""The switches of the two Sparks of a pair, on fake hosts."""

import json
from typing import Any

import pytest

from sparkwright.engine.operations import serve as engine
from sparkwright.engine.switch import Outcome
from tests.makers.engine import FORMER, REPORT, spark
from tests.makers.release import pair


class Head:
    """A Spark that gives one answer after another."""

    def __init__(self, answers: list[str]) -> None:
        self.name, self.data = "head", {"_sudo": True}
        self.answers = iter(answers)
        self.stopped: list[tuple[str, bool]] = []

    def get_fact(self, fact: Any, **_: Any) -> Any:
        return fact().process(next(self.answers).split("\n"))

    def log(self, *_: object) -> None:
        pass

    def run_shell_command(self, command: Any, _sudo: bool) -> None:
        self.stopped.append((command.get_raw_value(), _sudo))


def test_the_other_of_a_pair_ends_its_switch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose peer has failed would wait for it until its time is over."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0)
    ours = pair(0)
    said = [
        f"active\n{json.dumps(REPORT | {'phase': 'starting'})}",
        f"inactive\n{json.dumps(REPORT | {'phase': 'failed', 'message': 'it was stopped'})}",
    ]
    driven = spark(FORMER)
    with driven.current() as worker:
        theirs = Outcome(ended=True, reason="no GPU", began=Outcome().began)
        monkeypatch.setitem(engine._last, (worker.name, ours.id), theirs)
        worker.data.spark = "b"
        outcome = Outcome()
        head = Head(said)
        engine._follow(worker.state, head, "/opt/x", ours.id, worker, outcome)  # type: ignore
    assert head.stopped == [(f"systemctl stop --no-block switch@{ours.id}.service", True)]
    assert (outcome.served, outcome.reason) == (False, "b: no GPU")


def test_the_log_of_a_switch_that_fails_within_a_look_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal is read from the time that the first report names."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0)
    failed = json.dumps(REPORT | {"phase": "failed", "message": "it ended"})
    log = "vllm: error: unrecognized arguments: --x\n-- cursor: s=1"
    head = Head(["active\n", f"inactive\n{failed}", f"inactive\n{failed}\n{log}"])
    driven, outcome = spark(FORMER), Outcome()
    with driven.current() as worker:
        engine._follow(worker.state, head, "/opt/x", pair(0).id, None, outcome)  # type: ignore
    assert outcome.log == ["vllm: error: unrecognized arguments: --x"]
    assert (outcome.served, outcome.reason) == (False, "it ended")
