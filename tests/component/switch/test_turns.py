"""A switch where models take turns: it waits for its place, and nothing boots."""

import json
import signal

import pytest

from host.engine.places import MANIFEST
from tests.component.servers import until
from tests.component.switch.conftest import LONG, NEW, OLD, Spark


@pytest.fixture
def turns(served: Spark) -> Spark:
    """One release has served on demand, and does not run now."""
    one = {"seat": "", "rank": 0, "on_demand": True}
    (served.root / MANIFEST).write_text(json.dumps({"replicas": {"chat": one}}))
    served.systemctl("stop", OLD)
    served.forget()
    return served


def _gives_place(spark: Spark) -> None:
    until((spark.state / f"run/{NEW}.asks").exists)
    assert not spark.acts()
    (spark.state / f"run/{NEW}.go").touch()


def test_it_waits_for_its_place(turns: Spark) -> None:
    turns.start()
    _gives_place(turns)
    assert turns.end() == 0
    assert (turns.running, turns.current, turns.history) == ([NEW], NEW, [OLD, NEW])
    # The first request after a boot starts it.
    assert turns.boots == []
    assert turns.door == [NEW]
    assert [*(turns.state / "run").iterdir()] == []


def test_a_way_back_to_what_its_owner_had_stopped_starts_it(turns: Spark) -> None:
    """Until a boot systemd would not."""
    (turns.state / f"{NEW}.masked").touch()
    turns.start()
    _gives_place(turns)
    assert turns.end() == 0
    assert turns.running == [NEW]


def test_one_that_fails_leaves_the_previous_one_to_the_next_request(turns: Spark) -> None:
    turns.release(NEW, "fails")
    turns.start()
    _gives_place(turns)
    assert turns.end() == 1
    assert (turns.running, turns.current, turns.history) == ([], OLD, [OLD])
    assert [*(turns.state / "run").iterdir()] == []
    # It is the previous one still for a switch after this.
    assert turns.report["previous"] == OLD


def test_who_is_stopped_in_its_wait_asks_no_more(turns: Spark) -> None:
    turns.start()
    until((turns.state / f"run/{NEW}.asks").exists)
    turns.signal(signal.SIGTERM)
    assert turns.end() == 1
    assert "the switch was stopped" in turns.report["message"]
    assert (turns.running, turns.current) == ([], OLD)
    assert [*(turns.state / "run").iterdir()] == []


def test_a_kill_leaves_nothing_that_asks(turns: Spark) -> None:
    turns.start(orders={"trial": LONG})
    _gives_place(turns)
    until(lambda: bool(turns.acts()))
    turns.signal(signal.SIGKILL)
    assert turns.process
    turns.process.wait()
    turns.start(word="back")
    turns.end()
    assert (turns.running, turns.current, turns.history) == ([], OLD, [OLD])
    assert [*(turns.state / "run").iterdir()] == []


LAZY = {"lazy": True}


@pytest.mark.parametrize("has_served", [False, True])
def test_a_run_starts_none_that_requests_start(spark: Spark, has_served: bool) -> None:
    if has_served:
        spark.serves()
        spark.systemctl("stop", OLD)
    spark.release(NEW)
    one = {"seat": "", "rank": 0, "on_demand": True}
    (spark.root / MANIFEST).write_text(json.dumps({"replicas": {"chat": one}}))
    spark.forget()
    assert spark.switch(orders=LAZY) == 0
    assert not any("start" in act for act in spark.acts())
    assert (spark.running, spark.boots, spark.current) == ([], [], NEW)
    assert spark.door == [NEW]
    assert spark.history == [*([OLD] if has_served else []), NEW]
    assert not (spark.state / "run").exists()


def test_a_run_replaces_one_that_serves(turns: Spark) -> None:
    turns.systemctl("start", OLD)
    until(lambda: turns.active(OLD))
    turns.start(orders=LAZY)
    until((turns.state / f"run/{NEW}.asks").exists)
    (turns.state / f"run/{NEW}.go").touch()
    assert turns.end() == 0
    assert (turns.running, turns.current, turns.boots) == ([NEW], NEW, [])


def test_the_worker_of_a_pair_on_demand_waits_for_its_head(spark: Spark) -> None:
    """The one before has waited, too: nobody starts their head now."""
    spark.release(OLD, "never", rank=1, pair=True)
    spark.systemctl("start", OLD)
    (spark.state / f"wants/vllm@{OLD}.service").symlink_to("/etc/vllm@.service")
    (spark.root / "current").symlink_to(f"releases/{OLD}")
    spark.release(NEW, "never", rank=1, pair=True)
    one = {"seat": "", "rank": 1, "on_demand": True}
    (spark.root / MANIFEST).write_text(json.dumps({"replicas": {"chat": one}}))
    spark.forget()
    assert spark.switch(orders=LAZY | {"door": False}) == 0
    assert (spark.boots, spark.current) == ([NEW], NEW)
    assert spark.acts() == [f"stop vllm@{OLD}", f"start --no-block vllm@{NEW}"]
