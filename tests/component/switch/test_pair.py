"""A switch of one rank of a pair."""

import pytest

from tests.component.switch.conftest import BESIDE, LONG, NEW, OLD, Spark, is_new


@pytest.fixture
def worker(served: Spark) -> Spark:
    for name in (OLD, NEW):
        served.release(name, rank=1, pair=True)
    return served


def test_a_head_stands_before_a_door(served: Spark) -> None:
    served.release(NEW, pair=True)
    assert served.switch(orders=BESIDE) == 0
    is_new(served)
    assert served.report["beside"] is False


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


def test_a_head_that_does_not_stop_leaves_its_worker_as_it_is(worker: Spark) -> None:
    life = worker.systemctl("show", OLD)
    assert worker.switch(orders={"door": False}) == 1
    assert f"the head has not stopped {OLD}" in worker.report["message"]
    assert worker.systemctl("show", OLD) == life
    assert worker.report["restored"] is True


def test_a_previous_one_of_this_spark_alone_is_stopped_at_once(served: Spark) -> None:
    served.release(NEW, rank=1, pair=True)
    assert served.switch(orders={"door": False, "drain": LONG}) == 0
    assert served.running == served.boots == [NEW]
