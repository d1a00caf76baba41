"""Three Sparks: no engine starts before all are there, and the end of any is the end of all."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.engine.sparks import NAMES, RELEASE, Spark, group, identify, serve, trust
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
    head.wait_status("waiting for spark-b at 127.0.0.12: its supervisor is gone; spark-c at")
    serve([first, last])
    head.wait_ready()
    starts = (head.root.parent / "starts").read_text().split()
    assert (sorted(starts[:2]), starts[2:]) == (["spark-b", "spark-c"], ["spark-a"])
    head.signal(signal.SIGTERM)
    assert [spark.end() for spark in three] == [0, 1, 1]
    assert {spark.status for spark in three[1:]} == {"engine ended: spark-a: it was stopped"}


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
    serve(three, **{"peer_link.SILENCE": patience(1)})
    frozen = three[which]
    frozen.signal(signal.SIGSTOP)
    for spark in three:
        if spark is not frozen:
            assert spark.end() == 1
            assert f"no word for {patience(1):g} s" in spark.status
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
