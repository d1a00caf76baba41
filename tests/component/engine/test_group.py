"""Three Sparks and four: no engine starts before all are there, and the end of one ends all."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.engine.sparks import (
    NAMES,
    RELEASE,
    Spark,
    group,
    identify,
    lives,
    serve,
    take_turns,
    trust,
)
from tests.component.servers import until


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Spark]]:
    """A head and two workers."""
    sparks = group(tmp_path, 3)
    yield sparks
    for spark in sparks:
        spark.close()


def containers(sparks: list[Spark]) -> list[bool]:
    """Tell which have had a container."""
    return [(spark.state / "container").exists() for spark in sparks]


def test_none_starts_before_all_are_there_and_the_head_starts_last(three: list[Spark]) -> None:
    head, first, last = three
    head.start()
    first.start()
    head.wait_status("waiting for spark-c at 127.0.0.13: nothing heard yet; there, `systemctl")
    first.wait_status("waiting for spark-a at 127.0.0.11: it waits for other Sparks of the group")
    head.live_on()
    assert containers(three) == [False] * 3
    # One that goes meanwhile is waited for anew.
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    head.wait_status("for spark-b at 127.0.0.12: its supervisor is gone; waiting for spark-c")
    serve([first, last])
    head.wait_ready()
    starts = (head.root.parent / "starts").read_text().split()
    assert (sorted(starts[:2]), starts[2:]) == (["spark-b", "spark-c"], ["spark-a"])
    head.signal(signal.SIGTERM)
    assert [spark.end() for spark in three] == [0, 1, 1]
    assert {spark.status for spark in three[1:]} == {"engine ended: spark-a: it was stopped"}


def test_who_is_missing_after_the_bound_is_named(three: list[Spark]) -> None:
    head, first, last = three
    times = {"meeting.MISSING": patience(0.5)}
    head.start(**times)
    head.wait_status("waiting for spark-b")
    first.start(**times)
    late = f"missing for {patience(0.5) / 60:.0f} min: "
    head.wait_status(f"{late}spark-c at 127.0.0.13: nothing heard yet; there, `systemctl")
    # Whom it hears is not missing.
    first.wait_status("it waits for other Sparks of the group")
    first.live_on()
    assert first.status.startswith("waiting for spark-a")
    head.kill()
    first.wait_status(f"{late}spark-a at 127.0.0.11: its engine is not started")
    serve([head, last], **times)
    first.wait_ready()


def test_where_models_take_turns_no_engine_starts_before_all_have_a_place(
    three: list[Spark],
) -> None:
    take_turns(three)
    head, first, last = three
    times = {"meeting.MISSING": patience(0.5)}
    rooms = [spark.root / "run" / f"{RELEASE}.asks" for spark in three]
    for spark in (first, last):
        spark.start(**times)
        spark.wait_status("its engine is not started")
    # Its head rests until the next request, and is not missing however long that takes.
    until(lambda: last.notified.count("WATCHDOG=1") > 10 * patience(0.5))
    assert not any("missing" in each for spark in three for each in spark.notified)
    head.start(**times)
    until(lambda: rooms[1].exists() and rooms[2].exists())
    rooms[1].with_suffix(".go").touch()
    last.live_on()
    first.live_on()
    assert not any(containers(three))
    rooms[2].with_suffix(".go").touch()
    for spark in three:
        spark.wait_ready()
    starts = (head.root.parent / "starts").read_text().split()
    assert (sorted(starts[:2]), starts[2:]) == (["spark-b", "spark-c"], ["spark-a"])
    (head.root / "run").mkdir()
    # One of them needs it back: the head's loop hears so.
    rooms[2].with_suffix(".back").touch()
    until((head.root / f"run/{RELEASE}.back").exists)
    head.signal(signal.SIGTERM)
    assert [spark.end() for spark in three] == [0, 1, 1]
    assert [[*(spark.root / "run").iterdir()] for spark in (first, last)] == [[], []]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("what", ["engine", "supervisor"])
def test_the_end_of_any_is_the_end_of_all(three: list[Spark], which: int, what: str) -> None:
    serve(three)
    one = three[which]
    if what == "engine":
        os.kill(one.container, signal.SIGKILL)
    else:
        one.signal(signal.SIGKILL)
    for spark in three:
        if spark is not one:
            assert spark.end() == 1
            # A worker hears of another one by the head.
            assert spark.status.startswith("engine ended: spark-")
            assert NAMES[which] in spark.status
    if what == "engine":
        assert one.end() == 1
        # The next lives of all meet again.
        serve(three)


@pytest.mark.parametrize("which", [0, 2])
def test_a_silent_spark_is_a_loss(three: list[Spark], which: int) -> None:
    serve(three, **{"peer_link.SILENCE": patience(3)})
    frozen = three[which]
    frozen.signal(signal.SIGSTOP)
    for spark in three:
        if spark is not frozen:
            assert spark.end() == 1
            assert f"no word for {patience(3):g} s" in spark.status
    frozen.signal(signal.SIGCONT)
    assert frozen.end() == 1


def test_a_stop_of_one_worker_lets_the_head_drain_beside_both(three: list[Spark]) -> None:
    head, worker, other = three
    serve(three)
    head.set("draining")
    worker.signal(signal.SIGTERM)
    until(lambda: f"stop -t 5 vllm-{RELEASE}" in head.docker)
    other.live_on()
    assert worker.container_lives
    assert other.container_lives
    head.set("draining", False)
    assert [spark.end() for spark in three] == [1, 0, 1]
    assert head.status == "engine ended: spark-b: it was stopped"
    assert other.status == "engine ended: spark-a: spark-b: it was stopped"


def test_another_release_or_certificate_keeps_all_waiting(three: list[Spark]) -> None:
    head, first, last = three
    identify(last)
    first.prepare(1, NAMES, "tiny-ffffffff")
    head.start()
    first.start("tiny-ffffffff")
    last.start()
    head.wait_status("spark-b runs release tiny-ffffffff, this Spark tiny-0a1b2c3d: run")
    head.wait_status("spark-c at 127.0.0.13: it shows a certificate other than the pinned one")
    head.live_on()
    assert containers(three) == [False] * 3
    trust(head, first, last)
    first.kill()
    serve([first])
    for spark in three:
        spark.wait_ready()


def test_a_rank_of_four_dies_and_all_go_on_to_their_standbys(tmp_path: Path) -> None:
    four = group(tmp_path, 4)
    try:
        for spark in four:
            spark.unit(standby=1)
        serve(four)
        until(lambda: all(spark.standby_waits for spark in four))
        waiting = [spark.standby for spark in four]
        os.kill(four[3].container, signal.SIGKILL)
        assert [spark.end() for spark in four] == [1] * 4
        assert [lives(each) for each in waiting] == [True] * 4
        serve(four)
        assert [spark.container for spark in four] == waiting
        assert len((tmp_path / "starts").read_text().split()) == 4
        four[1].signal(signal.SIGTERM)
        assert [spark.end() for spark in four] == [1, 0, 1, 1]
    finally:
        for spark in four:
            spark.close()
