"""What a run does about what serves, and what it says."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.artifacts.jobs.deploy import start
from sparkwright.common.placed import Place
from sparkwright.engine import operations
from sparkwright.engine.deploy import vacated
from sparkwright.engine.operations import idle, serving
from sparkwright.engine.switch import Outcome
from tests.makers import starts
from tests.makers.engine import (
    FORMER,
    LOG,
    NEW,
    REPORT,
    SETTINGS,
    SETTLED,
    changes,
    engines,
    spark,
    unit,
)
from tests.makers.release import pair
from tests.unit.driven import Driven, fake_host, placed


def serve(driven: Driven) -> Any:
    return driven.run(serving, release=NEW, settings=SETTINGS)


def test_what_serves_is_left_alone() -> None:
    driven = spark(SETTLED)
    assert serve(driven).did_succeed()
    assert changes(driven) == []
    assert not driven.predicts_change(serving, release=NEW, settings=SETTINGS)


def test_where_systemd_says_nothing_the_spark_fails() -> None:
    driven = spark(engines() | {"units": {}})
    assert serve(driven).did_error()
    assert "systemd does not answer: the engine is one of its units" in driven.scripts()[-1]


@pytest.mark.parametrize(
    ("found", "command"),
    [
        ({"current": "old"}, f"ln -sfnT releases/{NEW.id} /opt/x/current"),
        ({"first": "old"}, f"bin/sparkwright-host door /opt/x offer {NEW.id} "),
        ({"hold": "yes"}, f"bin/sparkwright-host door /opt/x prefer {NEW.id}"),
        ({"stray": "active"}, "systemctl disable --quiet --now vllm@stray.service"),
        ({"failed": "switch@bad.service"}, "systemctl reset-failed switch@bad.service"),
        ({"stray": "failed", "enabled": f"{NEW.id} stray"}, "systemctl disable --quiet --now"),
    ],
)
def test_what_serves_is_put_right_without_a_switch(found: dict[str, str], command: str) -> None:
    settled = {"enabled": NEW.id, "current": NEW.id}
    stray = [("stray", found.pop("stray"))] if "stray" in found else []
    told = engines((NEW.id, "active"), *stray, **(settled | found))  # type: ignore[arg-type]
    driven = spark(told)
    assert serve(driven).did_succeed()
    (done,) = changes(driven)
    assert command in done
    assert driven.predicts_change(serving, release=NEW, settings=SETTINGS)


TURNS = replace(SETTINGS, on_demand=True)


@pytest.mark.parametrize("active", ["active", "inactive", "activating", "deactivating"])
@pytest.mark.parametrize("hold", ["no", "yes"])
def test_a_model_whose_turn_it_is_not_is_left_alone(active: str, hold: str) -> None:
    """Neither is it started, nor its door opened."""
    told = engines((NEW.id, active), current=NEW.id, hold=hold) | {"last": NEW.id}
    driven = spark(told)
    assert driven.run(serving, release=NEW, settings=TURNS).did_succeed()
    assert changes(driven) == []
    assert not driven.predicts_change(serving, release=NEW, settings=TURNS)


@pytest.mark.parametrize(
    ("found", "command"),
    [
        ({"current": "old"}, f"systemctl start switch@{NEW.id}"),
        ({"last": "old"}, f"systemctl start switch@{NEW.id}"),
        ({"last": None}, f"systemctl start switch@{NEW.id}"),
        ({"active": "failed"}, f"systemctl start switch@{NEW.id}"),
        ({"enabled": NEW.id}, f"systemctl disable --quiet vllm@{NEW.id}"),
        ({"first": "old"}, f"bin/sparkwright-host door /opt/x offer {NEW.id} "),
        ({"active": "active", "serves": False}, "is active, but"),
    ],
)
def test_what_differs_of_one_on_demand_is_put_right(found: dict[str, Any], command: str) -> None:
    last, active = found.pop("last", NEW.id), found.pop("active", "inactive")
    told = engines((NEW.id, active), **({"current": NEW.id} | found)) | {"last": last}
    driven = spark(told)
    driven.run(serving, release=NEW, settings=TURNS)
    assert any(command in script for script in changes(driven))
    assert driven.predicts_change(serving, release=NEW, settings=TURNS)


@pytest.mark.parametrize(("active", "told"), [("inactive", True), ("active", False)])
def test_the_last_words_tell_who_was_not_started(
    active: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[str]()
    monkeypatch.setattr(operations, "conclude", lambda *words: lines.append("".join(words)))
    driven = spark(engines((NEW.id, active), current="old") | {"last": "old"})
    assert driven.run(serving, release=NEW, settings=TURNS).did_succeed()
    words = f"{NEW.id} is unproved until its first request, which starts it."
    assert lines == ([words] if told else [])


def test_a_run_has_what_a_person_stopped_be_started_again() -> None:
    told = engines(current=NEW.id) | {"last": NEW.id}
    told["units"][NEW.id]["masked"] = True
    driven = spark(told)
    assert driven.run(serving, release=NEW, settings=TURNS).did_succeed()
    unmask, door = changes(driven)[0].split(" && ")
    assert unmask == f"systemctl unmask --runtime --quiet vllm@{NEW.id}.service"
    assert door.endswith(f"door {NEW.place} sync")


@pytest.mark.parametrize("shares", [True, False])
def test_the_share_of_a_pair_is_off_where_no_seat_is_its_head(shares: bool) -> None:
    driven = spark(SETTLED | {"shares": True})
    settings = replace(SETTINGS, shares=shares)
    assert driven.run(serving, release=NEW, settings=settings).did_succeed()
    off = "systemctl disable --quiet --now fabric-share.socket"
    assert changes(driven) == ([] if shares else [off])


def test_a_switch_is_a_job_of_the_spark() -> None:
    driven = spark(engines((NEW.id, "active"), enabled="old", current=NEW.id))
    assert serve(driven).did_succeed()
    started = [script for script in changes(driven) if "systemctl start" in script]
    assert started == [start(f"switch@{NEW.id}").get_raw_value()]
    assert not any("vllm@" in script for script in changes(driven))


def test_a_switch_under_way_is_joined_and_another_ended_first() -> None:
    driven = spark(engines((NEW.id, "activating"), enabled="old", switches=NEW.id))
    serve(driven)
    assert changes(driven) == []
    driven = spark(engines(("other", "activating"), enabled="old", switches="other"))
    serve(driven)
    first, *_, last = changes(driven)
    assert first == "systemctl stop --no-block switch@other.service"
    assert last == start(f"switch@{NEW.id}").get_raw_value()
    driven = spark(engines(("old", "active"), enabled="old", current="old", switches=NEW.id))
    assert driven.run(idle, place=Place("/opt/x")).did_succeed()
    # An engine ends, boots no more, and has not failed.
    forgiven = "{ systemctl reset-failed vllm@old.service 2>/dev/null || true; }"
    assert changes(driven) == [
        f"systemctl stop switch@{NEW.id}.service",
        f"systemctl disable --quiet --now vllm@old.service && {forgiven}",
        "rm /opt/x/current",
    ]


def test_what_does_not_serve_fails_with_what_it_said() -> None:
    report = {"phase": "failed", "message": "it did not start: x", "restored": True, "gap": 12.5}
    driven, outcome = spark(FORMER, report, log=LOG), Outcome()
    result = driven.run(serving, release=NEW, settings=SETTINGS, outcome=outcome)
    assert result.did_error()
    said = driven.scripts()[-1]
    for part in (
        LOG,
        "it did not start: x",
        "old serves again",
        f"vllm@{NEW.id} stays off",
        "Hint",
    ):
        assert part in said
    assert (outcome.served, outcome.attempted, outcome.reason) == (False, True, report["message"])
    assert outcome.log == [LOG]


def test_an_engine_that_is_active_and_silent_is_left_as_it_is() -> None:
    driven = spark(engines((NEW.id, "active"), enabled=NEW.id, current=NEW.id, serves=False))
    assert not serve(driven).did_succeed()
    (said,) = changes(driven)
    assert "is active, but a completion of one token gave: no answer in time" in said
    assert "stays off" not in said


def test_the_other_of_a_pair_hears_of_a_switch_that_does_not_begin() -> None:
    """As on a Spark that shuts down: what it fails at is a command before anything is followed."""
    refused = {start(f"switch@{NEW.id}").get_raw_value(): {"success": False}}
    outcome, driven = Outcome(), spark(FORMER)
    driven.data["fake_responses"] |= refused
    assert driven.run(serving, release=NEW, settings=SETTINGS, outcome=outcome).did_error()
    assert (outcome.ended, outcome.served, outcome.reason) == (True, False, "it began no switch")


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
    monkeypatch.setattr(operations, "POLL_SECONDS", 0)
    ours = pair(0)
    own = head(said(False, phase="starting"), said(True, phase="failed", message="it was stopped"))
    with spark(FORMER).current() as worker:
        theirs = Outcome(ended=True, reason="no GPU", began=Outcome().began)
        monkeypatch.setitem(operations._last, (worker.name, ours.id), theirs)
        worker.data.spark = "b"
    sound = SimpleNamespace(name="@fake/sound")
    monkeypatch.setitem(operations._last, (sound.name, ours.id), Outcome())
    outcome = Outcome()
    with own.current() as host:
        operations._follow(host.state, host, "/opt/x", ours.id, [sound, worker], outcome)
    assert own.scripts() == [f"systemctl stop --no-block switch@{ours.id}.service"]
    assert (outcome.served, outcome.reason) == (False, "b: no GPU")


def test_the_log_of_a_switch_that_fails_within_a_look_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal is read from the time that the first report names."""
    monkeypatch.setattr(operations, "POLL_SECONDS", 0)
    failed = {"phase": "failed", "message": "it ended"}
    log = "vllm: error: unrecognized arguments: --x"
    own, outcome = head(said(False), said(True, **failed), said(True, log, **failed)), Outcome()
    with own.current() as host:
        operations._follow(host.state, host, "/opt/x", pair(0).id, [], outcome)
    assert outcome.log == ["vllm: error: unrecognized arguments: --x"]
    assert (outcome.served, outcome.reason) == (False, "it ended")


def test_what_a_start_took_is_told_once_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "POLL_SECONDS", 0)
    took = starts.start(90, weights=27)
    looks = [said(False, phase="trial") | {"start": took.model_dump()}, said(True, phase="done")]
    own, outcome = head(*looks), Outcome()
    with own.current() as host:
        operations._follow(host.state, host, "/opt/x", pair(0).id, [], outcome)
    assert outcome.start == took


def seated(*seats: str) -> Driven:
    """A Spark whose other seats each have an engine, and a switch under way."""
    folder = {"kind": "directory", "user": "root", "group": "root", "mode": "755"}
    files = {f"/r/seats/{name}": folder for name in (*seats, "embed/state") if seats}
    units = {"b-1": unit("b-1", "active", enabled=True)}
    own = engines(current="b-1", switches="b-2") | {"units": units}
    found = {"placed": placed({"/r/seats": folder} | files), "engines": own}
    return fake_host(state=found, root="/r", recipe="", spark="a")


@pytest.mark.parametrize("seats", [[], ["embed"]])
def test_what_is_declared_is_left_as_it_is(seats: list[str]) -> None:
    assert not seated(*seats).run(vacated, wanted=seats).did_change()


def test_what_nobody_declares_goes_and_the_others_stay() -> None:
    driven = seated("embed")
    assert driven.run(vacated, wanted=[]).did_change()
    text = "\n".join(driven.scripts())
    folders = "/r/door/seats/embed /r/sockets/seats/embed /r/state/seats/embed /r/seats/embed"
    at = 0
    for done in (
        "systemctl stop switch@b-2.service",
        "disable --quiet --now vllm@b-1.service",
        # Until its door is gone, a request would start it again.
        "mask --runtime --quiet vllm@b-1.service && systemctl stop vllm@b-1.service",
        "disable --quiet --now door@embed.service",
        f"rm -rf {folders}",
        "rm -f /etc/systemd/system/door@.service",
    ):
        assert (at := text.find(done, at)) >= 0, done
    driven = seated("embed", "rank")
    driven.run(vacated, wanted=["rank"])
    text = "\n".join(driven.scripts())
    assert "/r/seats/embed" in text
    assert "rmdir" not in text
    assert "door@.service" not in text
