"""One release in the place of another, and back, whatever goes wrong on the way."""

import json
import signal
import time

import pytest

from sparkwright.plan.release.container import CONTAINER_OPTIONS
from tests.clock import patience
from tests.component.servers import until
from tests.component.switch.conftest import (
    BESIDE,
    BRIEF,
    LONG,
    NEW,
    OLD,
    OTHER,
    Spark,
    is_new,
    is_old,
)
from tests.component.switch.systemctl import READY


def test_the_first_release(spark: Spark) -> None:
    spark.release(NEW)
    begun = time.monotonic()
    assert spark.switch() == 0
    passed = time.monotonic() - begun
    is_new(spark)
    assert spark.report["previous"] is None
    assert " ".join(CONTAINER_OPTIONS) in (spark.state / "proof").read_text()
    assert READY <= spark.report["seconds"] <= round(passed, 1)


def test_side_by_side(served: Spark) -> None:
    (served.state / f"busy-{OLD}").write_text("2")
    served.start(orders={"beside": True, "drain": LONG})
    served.wait_phase("draining")
    # Committed: a power cut now boots the new one; the previous one still answers.
    assert served.boots == [NEW]
    assert served.running == [OLD, NEW]
    assert served.door[0] == NEW
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 0
    is_new(served)
    assert served.history == [OLD, NEW]
    assert served.acts() == [
        f"start --no-block vllm@{NEW}",
        f"door offer {NEW}",
        f"door prefer {NEW}",
        f"stop vllm@{OLD}",
        f"door forget {OLD}",
    ]
    assert (served.report["beside"], served.report["gap"]) == (True, 0)


def test_one_after_the_other(served: Spark) -> None:
    (served.state / f"{OTHER}.failed").touch()
    (served.state / f"busy-{OLD}").write_text("2")
    served.start(orders={"drain": LONG})
    served.wait_phase("draining")
    assert served.running == [OLD]
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 0
    is_new(served)
    assert list(served.state.glob("*.failed")) == []
    acts = [act for act in served.acts() if not act.startswith("door offer")]
    assert acts == [
        "door hold",
        f"stop vllm@{OLD}",
        f"start --no-block vllm@{NEW}",
        f"door prefer {NEW}",
        f"door forget {OLD}",
    ]
    assert READY <= served.report["gap"] <= served.report["seconds"]


@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_a_drain_is_bounded(served: Spark, orders: dict[str, bool]) -> None:
    (served.state / f"busy-{OLD}").write_text("1")
    assert served.switch(orders=orders) == 0
    is_new(served)


# With both side by side, as on a whole Spark: tests/system/test_switch.py.
@pytest.mark.parametrize(
    ("orders", "how", "reason"),
    [
        ({}, "fails", "did not start: engine ended: its exit status was 1"),
        ({}, "never", f"did not serve within {BRIEF} s: starting the engine"),
        ({}, "died", "ended after it had begun to serve: engine ended: its exit status was 0"),
        (BESIDE, "fails", "did not start: engine ended: its exit status was 1"),
    ],
)
def test_what_does_not_serve_is_taken_back(
    served: Spark, orders: dict[str, bool], how: str, reason: str
) -> None:
    served.release(NEW, "well" if how == "died" else how)
    served.start(orders={"trial": LONG} | orders)
    if how == "died":
        served.wait_phase("trial")
        served.behaves(NEW, how)
    assert served.end() == 1
    is_old(served)
    assert reason in served.report["message"]
    assert (served.report["gap"] == 0) is bool(orders)
    acts = served.acts()
    if orders:
        # It was never behind the door.
        assert f"door prefer {NEW}" not in acts
    else:
        # The memory is too small for both.
        assert acts.index(f"stop vllm@{NEW}") < acts.index(f"start --no-block vllm@{OLD}")
        assert served.door == [OLD]


@pytest.mark.parametrize(("orders", "call"), [({}, "prefer"), (BESIDE, "offer")])
def test_a_door_that_does_not_do_it(served: Spark, orders: dict[str, bool], call: str) -> None:
    (served.state / f"door-{call}-fails").touch()
    assert served.switch(orders=orders) == 1
    is_old(served)
    assert served.report["message"] == f"{call} failed"


@pytest.mark.parametrize(
    ("orders", "phase"), [({}, "draining"), ({}, "starting"), (BESIDE, "trial")]
)
def test_told_to_stop(served: Spark, orders: dict[str, bool], phase: str) -> None:
    if phase == "draining":
        (served.state / f"busy-{OLD}").write_text("1")
    if phase == "starting":
        served.behaves(NEW, "never")
    served.start(orders={"trial": LONG, "drain": LONG} | orders)
    served.wait_phase(phase)
    served.signal(signal.SIGTERM)
    assert served.end() == 1
    is_old(served)
    assert served.report["message"] == "the switch was stopped"


def test_told_to_stop_after_the_commit(served: Spark) -> None:
    """It is made: only the previous one's clients have no more time."""
    (served.state / f"busy-{OLD}").write_text("1")
    served.start(orders={"beside": True, "drain": 10 * LONG})
    served.wait_phase("draining")
    served.signal(signal.SIGTERM)
    assert served.end() == 0
    is_new(served)


@pytest.mark.parametrize(
    ("orders", "phase"),
    [({}, "draining"), ({}, "trial"), (BESIDE, "draining"), (BESIDE, "starting")],
)
def test_killed(served: Spark, orders: dict[str, bool], phase: str) -> None:
    """What systemd runs then brings back the previous one, or finishes what is made.

    After a power cut, that one boots.
    """
    if phase == "draining":
        (served.state / f"busy-{OLD}").write_text("1")
    if phase == "starting":
        served.behaves(NEW, "never")
    served.start(orders={"trial": LONG if phase == "trial" else 0, "drain": LONG} | orders)
    served.wait_phase(phase)
    served.signal(signal.SIGKILL)
    served.end()
    is_made = phase == "draining" and orders
    assert served.boots == [NEW if is_made else OLD]
    assert served.current == (NEW if is_made else OLD)
    served.start(orders=orders, word="back")
    if is_made:
        assert served.end() == 0
        assert served.running == served.boots == served.door == [NEW]
    else:
        assert served.end() == 1
        is_old(served)
        assert served.report["message"] == "the program of the switch was killed"


def test_the_word_after_an_orderly_end_changes_nothing(served: Spark) -> None:
    assert served.switch() == 0
    served.forget()
    served.start(word="back")
    assert served.end() == 0
    assert served.acts() == []
    is_new(served)


def test_the_previous_one_does_not_come_back_either(served: Spark) -> None:
    served.behaves(NEW, "fails")
    (served.state / f"busy-{OLD}").write_text("1")
    served.start(orders={"drain": LONG})
    served.wait_phase("draining")
    served.release(OLD, "fails")
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 1
    assert served.report["restored"] is False
    assert f"{OLD} does not serve again either: " in served.report["message"]
    # It is what boots, and what systemd may still bring back.
    assert served.boots == [OLD]


def test_what_is_not_there_is_found_before_anything_is_touched(served: Spark) -> None:
    def refused(reason: str, **changed: int) -> None:
        """It ends with that, and the engines were only looked at."""
        assert served.switch(**changed) == 1
        assert reason in served.report["message"]
        assert served.acts() == []
        is_old(served)

    refused("GB are free at", DISK=10**18)
    (served.state / "no-gpu").touch()
    refused("a container sees no GPU: could not select device driver")
    (served.state / "no-image").touch()
    refused("Docker has no example.org/vllm@")
    (served.root / "tiny/.sparkwright.json").unlink()
    refused("the weights are gone")
    (served.root / f"releases/{NEW}/unit.json").unlink()
    refused(f"releases/{NEW} is not whole")


def test_one_that_crashes_and_comes_back_on_trial_is_refused(served: Spark) -> None:
    served.start(orders={"trial": 60})
    served.wait_phase("trial")
    # systemd has started it again between two looks.
    unit = served.state / f"units/{NEW}.json"
    another = unit.with_suffix(".another")
    another.write_text(json.dumps({"at": 0, "life": "another"}))
    another.replace(unit)
    assert served.end() == 1
    is_old(served)
    assert "ended after it had begun to serve" in served.report["message"]


def test_one_switch_at_a_time(served: Spark) -> None:
    served.release(OTHER)
    served.behaves(OTHER, "never")
    served.start(OTHER, orders={"trial": LONG})
    served.wait_phase("starting")
    first = served.process
    (served.root / f"jobs/switch@{OTHER}.json").unlink()
    served.start()
    served.wait_phase("waiting")
    served.look_on()
    assert served.running == []
    assert first
    first.terminate()
    assert first.wait(patience()) == 1
    (served.root / f"jobs/switch@{OTHER}.json").unlink()
    assert served.end() == 0
    assert served.running == served.boots == [NEW]
    assert served.history == [OLD, NEW]


def test_a_previous_one_that_did_not_run_is_left_as_it_was(served: Spark) -> None:
    served.systemctl("stop", OLD)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.running == []
    assert served.boots == [OLD]
    assert (served.report["previous"], served.report["restored"]) == (OLD, False)


def test_a_release_that_boots_already_is_only_started(served: Spark) -> None:
    assert served.switch() == 0
    served.systemctl("stop", NEW)
    assert served.switch(orders={"trial": LONG}) == 0
    is_new(served)
    assert served.history == [OLD, NEW]
    served.systemctl("stop", NEW)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.boots == [NEW]
    assert served.report["previous"] is None


def test_what_was_started_and_enabled_by_hand_is_stopped(served: Spark) -> None:
    """It would take the memory after a power cut."""
    served.release(OTHER)
    (served.state / f"wants/vllm@{OTHER}.service").symlink_to("/etc/vllm@.service")
    served.systemctl("start", OTHER)
    until(lambda: served.active(OTHER))
    assert served.switch() == 0
    is_new(served)


@pytest.fixture(params=[1, 3])
def worker(served: Spark, request: pytest.FixtureRequest) -> Spark:
    for name in (OLD, NEW):
        served.release(name, rank=request.param, pair=True)
        served.unit(name, sparks=[*"abcd"])
    return served


def test_a_worker_waits_for_its_head_to_stop(worker: Spark) -> None:
    worker.start(orders={"door": False, "drain": LONG})
    worker.wait_phase("waiting")
    worker.look_on()
    assert worker.running == [OLD]
    # The life ends by the head's.
    worker.behaves(OLD, "died")
    assert worker.end() == 0
    assert worker.running == worker.boots == [NEW]
    assert not (worker.state / f"{OLD}.failed").exists()
    assert not (worker.root / "door").exists()


def test_a_worker_waits_for_no_head_that_is_not_in_its_new_group(worker: Spark) -> None:
    worker.unit(NEW, sparks=[*"bcd"])
    assert worker.switch(orders={"door": False, "drain": LONG}) == 0
    assert worker.running == worker.boots == [NEW]


def test_a_head_that_does_not_stop_leaves_its_worker_as_it_is(worker: Spark) -> None:
    life = worker.systemctl("show", OLD)
    assert worker.switch(orders={"door": False}) == 1
    assert f"the head has not stopped {OLD}" in worker.report["message"]
    assert worker.systemctl("show", OLD) == life
    assert worker.report["restored"] is True
