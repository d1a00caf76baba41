"""One release in the place of another, and back, whatever goes wrong on the way."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.servers import fill, small_disk, until
from tests.unit.switch import FILES
from tests.unit.switch.conftest import NEW, OLD, OTHER, Spark, a_while
from tests.unit.switch.engines import Engines

BESIDE = {"beside": True}


def is_new(spark: Spark) -> None:
    """Nothing but the new release is left."""
    assert spark.running == spark.boots == [NEW]
    assert spark.current == spark.history[-1] == NEW
    assert spark.door == [NEW]
    assert not (spark.root / "state/switch.json").exists()
    assert spark.report["phase"] == "done"


def is_old(spark: Spark) -> None:
    """The former release serves as if nothing had been."""
    assert spark.running == spark.boots == [OLD]
    assert spark.current == spark.history[-1] == OLD
    assert not (spark.root / "state/switch.json").exists()
    assert spark.report["phase"] == "failed"
    assert (spark.report["former"], spark.report["restored"]) == (OLD, True)


@pytest.fixture
def served(spark: Spark) -> Spark:
    spark.serves()
    spark.release(NEW)
    return spark


def test_the_first_release(spark: Spark) -> None:
    spark.release(NEW)
    assert spark.switch() == 0
    is_new(spark)
    assert spark.report["former"] is None
    assert spark.report["seconds"] < 10


def test_side_by_side(served: Spark) -> None:
    (served.state / f"busy-{OLD}").write_text("2")
    served.start(orders={"beside": True, "drain": 60})
    served.wait_phase("draining")
    # Committed: a power cut now boots the new one; the former one still answers.
    assert served.boots == [NEW]
    assert served.running == [OLD, NEW]
    assert served.door[0] == NEW
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 0
    is_new(served)
    assert served.history == [OLD, NEW]
    port = json.loads((served.root / f"releases/{NEW}/release.json").read_text())["port"]
    assert served.log.acts() == [
        f"start vllm@{NEW}",
        f"door offer {NEW} {port}",
        f"door prefer {NEW}",
        f"stop vllm@{OLD}",
        f"door forget {OLD}",
    ]
    assert (served.report["beside"], served.report["gap"]) == (True, 0)


def test_one_after_the_other(served: Spark) -> None:
    (served.state / f"busy-{OLD}").write_text("2")
    served.start(orders={"drain": 60})
    served.wait_phase("draining")
    assert served.running == [OLD]
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 0
    is_new(served)
    acts = [act for act in served.log.acts() if not act.startswith("door offer")]
    assert acts == [
        "door hold",
        f"stop vllm@{OLD}",
        f"start vllm@{NEW}",
        f"door prefer {NEW}",
        f"door forget {OLD}",
    ]
    assert 0.1 <= served.report["gap"] < served.report["seconds"]


@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_a_drain_is_bounded(served: Spark, orders: dict[str, bool]) -> None:
    (served.state / f"busy-{OLD}").write_text("1")
    assert served.switch(orders=orders) == 0
    is_new(served)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("fails", "did not start: engine ended: its exit status was 1"),
        ("never", "did not serve within 1 s: starting the engine"),
        ("dies", "ended after it had begun to serve: engine ended: its exit status was 0"),
        ("silent", "serves no completion: no answer within 1 s"),
        ("broken", "serves no completion: a completion of one token gave status 500"),
    ],
)
@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_what_does_not_serve_is_taken_back(
    served: Spark, orders: dict[str, bool], how: str, reason: str
) -> None:
    served.release(NEW, how)
    assert served.switch(orders={"trial": 5} | orders) == 1
    is_old(served)
    assert reason in served.report["message"]
    assert (served.report["gap"] == 0) is bool(orders)
    if served.report["beside"] and how != "dies":
        # It was never behind the door.
        assert f"door prefer {NEW}" not in served.log.acts()
    else:
        assert served.door == [OLD]


@pytest.mark.parametrize(
    ("orders", "phase"),
    [({}, "draining"), ({}, "starting"), ({}, "trial"), (BESIDE, "starting"), (BESIDE, "trial")],
)
def test_told_to_stop(served: Spark, orders: dict[str, bool], phase: str) -> None:
    if phase == "draining":
        (served.state / f"busy-{OLD}").write_text("1")
    if phase == "starting":
        served.behaves(NEW, "never")
    served.start(orders={"trial": 60, "drain": 60} | orders)
    served.wait_phase(phase)
    served.signal(signal.SIGTERM)
    assert served.end() == 1
    is_old(served)
    assert served.report["message"] == "the switch was stopped"


def test_told_to_stop_after_the_commit(served: Spark) -> None:
    """It is made: only the former one's clients have no more time."""
    (served.state / f"busy-{OLD}").write_text("1")
    served.start(orders={"beside": True, "drain": 60})
    served.wait_phase("draining")
    served.signal(signal.SIGTERM)
    assert served.end(5) == 0
    is_new(served)


@pytest.mark.parametrize("phase", ["draining", "starting", "trial"])
@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_killed(served: Spark, orders: dict[str, bool], phase: str) -> None:
    """What systemd runs then brings back the former one, or finishes what is made."""
    if phase == "draining":
        (served.state / f"busy-{OLD}").write_text("1")
    if phase == "starting":
        served.behaves(NEW, "never")
    served.start(orders={"trial": 60 if phase == "trial" else 0, "drain": 60} | orders)
    served.wait_phase(phase)
    served.signal(signal.SIGKILL)
    served.end()
    served.start(orders=orders, word="back")
    if phase == "draining" and orders:
        assert served.end() == 0
        assert served.running == served.boots == served.door == [NEW]
    else:
        assert served.end() == 1
        is_old(served)
        assert served.report["message"] == "the program of the switch was killed"


def test_the_word_after_an_orderly_end_changes_nothing(served: Spark) -> None:
    assert served.switch() == 0
    served.log.clear()
    served.start(word="back")
    assert served.end() == 0
    assert served.log.acts() == []
    is_new(served)


@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_a_power_cut_boots_the_former_one(served: Spark, orders: dict[str, bool]) -> None:
    served.start(orders={"trial": 60} | orders)
    served.wait_phase("trial")
    served.signal(signal.SIGKILL)
    served.end()
    assert served.boots == [OLD]
    assert served.current == OLD


@pytest.mark.parametrize("how", ["fails", "never"])
def test_the_former_one_does_not_come_back_either(served: Spark, how: str) -> None:
    served.behaves(NEW, "fails")
    (served.state / f"busy-{OLD}").write_text("1")
    served.start(orders={"drain": 60})
    served.wait_phase("draining")
    served.release(OLD, how)
    (served.state / f"busy-{OLD}").unlink()
    assert served.end() == 1
    assert served.report["restored"] is False
    assert f"{OLD} does not serve again either: " in served.report["message"]
    # It is what boots, and what systemd may still bring back.
    assert served.boots == [OLD]


@pytest.mark.parametrize("orders", [{}, BESIDE])
def test_what_is_not_there_is_found_before_anything_is_touched(
    served: Spark, orders: dict[str, bool]
) -> None:
    def refused(reason: str, **changed: int) -> None:
        """It ends with that, and the engines were only looked at."""
        assert served.switch(orders=orders, **changed) == 1
        assert reason in served.report["message"]
        assert served.log.acts() == []
        is_old(served)

    refused("GB are free at", DISK=10**18)
    (served.state / "no-gpu").touch()
    refused("a container sees no GPU: could not select device driver")
    (served.state / "no-image").touch()
    refused("Docker has no example")
    (served.root / "tiny/.sparkwright.json").unlink()
    refused("the weights are gone")
    (served.root / f"releases/{NEW}/unit.json").unlink()
    refused(f"releases/{NEW} is not whole")


def test_a_former_one_that_did_not_run_is_left_as_it_was(served: Spark) -> None:
    served.systemctl("stop", OLD)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.running == []
    assert served.boots == [OLD]
    assert (served.report["former"], served.report["restored"]) == (OLD, False)


def test_a_release_that_boots_already_is_only_started(served: Spark) -> None:
    assert served.switch() == 0
    served.systemctl("stop", NEW)
    assert served.switch(orders={"trial": 60}) == 0
    is_new(served)
    assert served.history == [OLD, NEW]
    served.systemctl("stop", NEW)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.boots == [NEW]
    assert served.report["former"] is None


def test_what_was_started_by_hand_is_stopped(served: Spark) -> None:
    served.release(OTHER)
    served.systemctl("start", OTHER)
    until(lambda: served.active(OTHER))
    assert served.switch() == 0
    is_new(served)


def test_one_switch_at_a_time(served: Spark) -> None:
    served.release(OTHER, how="never")
    served.start(OTHER, orders={"trial": 60})
    served.wait_phase("starting")
    first = served.process
    (served.root / f"jobs/switch@{OTHER}.json").unlink()
    served.start()
    served.wait_phase("waiting")
    a_while()
    assert served.running == []
    assert first
    first.terminate()
    assert first.wait(10) == 1
    (served.root / f"jobs/switch@{OTHER}.json").unlink()
    assert served.end() == 0
    assert served.running == served.boots == [NEW]
    assert served.history == [OLD, NEW]


@pytest.mark.parametrize("orders", [{}, BESIDE])
@pytest.mark.parametrize("call", ["offer", "prefer"])
def test_a_door_that_does_not_do_it(served: Spark, orders: dict[str, bool], call: str) -> None:
    (served.state / f"door-{call}-fails").touch()
    assert served.switch(orders=orders) == 1
    is_old(served)
    assert served.report["message"] == f"{call} failed"


def test_two_of_one_port_are_not_side_by_side(served: Spark) -> None:
    """Ports are made of the content: two may have the same."""
    for name in ("unit.json", "release.json"):
        text = (served.root / f"releases/{OLD}/{name}").read_text()
        (served.root / f"releases/{NEW}/{name}").write_text(text)
    assert served.switch(orders=BESIDE) == 0
    assert served.report["beside"] is False
    is_new(served)


class TestFullDisk:
    """It fills up in the middle of a switch: logs of others, a download."""

    @pytest.fixture
    def spark(self, tmp_path: Path, ports: Engines) -> Iterator[Spark]:
        with small_disk(tmp_path / "root"):
            spark = Spark(tmp_path, ports)
            yield spark
            spark.close()

    @pytest.mark.parametrize(("phase", "how"), [("starting", "fails"), ("trial", "dies")])
    @pytest.mark.parametrize("orders", [{}, BESIDE])
    def test_the_former_one_gets_its_clients_back(
        self, served: Spark, orders: dict[str, bool], phase: str, how: str
    ) -> None:
        door = [sys.executable, "-B", FILES / "door/door.py", served.root]
        subprocess.run([*door, "prepare"], check=True)
        if phase == "starting":
            served.behaves(NEW, "never")
        served.start(orders={"trial": 60} | orders)
        served.wait_phase(phase)
        fill(served.root)
        served.behaves(NEW, how)
        assert served.end() == 1
        is_old(served)
        assert "engine ended" in served.report["message"]
        assert served.door == [OLD]

    @pytest.mark.parametrize("orders", [{}, BESIDE])
    def test_a_release_that_serves_all_the_same_takes_over(
        self, served: Spark, orders: dict[str, bool]
    ) -> None:
        served.start(orders={"trial": 1} | orders)
        served.wait_phase("trial")
        fill(served.root)
        assert served.end() == 0
        is_new(served)


class TestPair:
    """One rank of a pair."""

    @pytest.fixture
    def worker(self, served: Spark) -> Spark:
        for name in (OLD, NEW):
            served.release(name, rank=1, pair=True)
        return served

    def test_a_head_stands_before_a_door(self, served: Spark) -> None:
        served.release(NEW, pair=True)
        assert served.switch(orders=BESIDE) == 0
        is_new(served)
        assert served.report["beside"] is False

    def test_a_worker_waits_for_its_head_to_stop(self, worker: Spark) -> None:
        worker.start(orders={"door": False, "drain": 60})
        worker.wait_phase("waiting")
        a_while()
        assert worker.running == [OLD]
        # The life ends by the head's.
        worker.behaves(OLD, "died")
        assert worker.end() == 0
        assert worker.running == worker.boots == [NEW]
        assert not (worker.root / "door").exists()

    def test_a_head_that_does_not_stop_leaves_its_worker_as_it_is(self, worker: Spark) -> None:
        life = worker.systemctl("show", OLD)
        assert worker.switch(orders={"door": False}) == 1
        assert f"the head has not stopped {OLD}" in worker.report["message"]
        assert worker.systemctl("show", OLD) == life
        assert worker.report["restored"] is True

    def test_a_former_one_of_this_spark_alone_is_stopped_at_once(self, served: Spark) -> None:
        served.release(NEW, rank=1, pair=True)
        assert served.switch(orders={"door": False, "drain": 60}) == 0
        assert served.running == served.boots == [NEW]
