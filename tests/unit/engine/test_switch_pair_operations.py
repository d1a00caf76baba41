"""The switches of the two Sparks of a pair, on fake hosts."""

from collections.abc import Mapping
from typing import Any

import pytest

from sparkwright.engine.operations import serve as engine
from sparkwright.engine.switch import Outcome
from tests.makers.engine import FORMER, REPORT, spark
from tests.makers.release import pair
from tests.unit.driven import Driven, fake_host


def said(ended: bool, *lines: str, **report: str) -> dict[str, Any]:
    """What a look at a switch finds."""
    told = REPORT | report if report else None
    return {"ended": ended, "report": told, "cursor": "s=1" if lines else None, "lines": lines}


def head(*looks: Mapping[str, Any]) -> Driven:
    """A Spark of which one look after another finds this."""
    answers = iter(looks)
    return fake_host(state={"engines.switch": lambda **asked: next(answers)}, _sudo=True)


def test_the_other_of_a_pair_ends_its_switch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose peer has failed would wait for it until its time is over."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0)
    ours = pair(0)
    own = head(said(False, phase="starting"), said(True, phase="failed", message="it was stopped"))
    with spark(FORMER).current() as worker:
        theirs = Outcome(ended=True, reason="no GPU", began=Outcome().began)
        monkeypatch.setitem(engine._last, (worker.name, ours.id), theirs)
        worker.data.spark = "b"
    outcome = Outcome()
    with own.current() as host:
        engine._follow(host.state, host, "/opt/x", ours.id, worker, outcome)
    assert own.scripts() == [f"systemctl stop --no-block switch@{ours.id}.service"]
    assert (outcome.served, outcome.reason) == (False, "b: no GPU")


def test_the_log_of_a_switch_that_fails_within_a_look_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal is read from the time that the first report names."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0)
    failed = {"phase": "failed", "message": "it ended"}
    log = "vllm: error: unrecognized arguments: --x"
    own, outcome = head(said(False), said(True, **failed), said(True, log, **failed)), Outcome()
    with own.current() as host:
        engine._follow(host.state, host, "/opt/x", pair(0).id, None, outcome)
    assert outcome.log == ["vllm: error: unrecognized arguments: --x"]
    assert (outcome.served, outcome.reason) == (False, "it ended")
