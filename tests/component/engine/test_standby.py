"""The standby of an engine: it is the next start, or it is not there."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.engine.sparks import RELEASE, Spark, lives
from tests.component.servers import free_port, until

TAKEN = "its standby goes on as the engine"
USELESS = "its standby is of no use: the engine starts anew"


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    """A Spark whose release is to have a standby."""
    spark = Spark(tmp_path / "spark-a", "spark-a", free_port())
    spark.prepare(0, ("spark-a",))
    spark.unit(standby=1)
    yield spark
    spark.close()


def with_standby(spark: Spark, **times: float) -> int:
    """Have the engine serve, and a standby wait; return its process."""
    spark.start(**times)
    spark.wait_ready()
    until(lambda: spark.standby_waits)
    return spark.standby


def crash(spark: Spark) -> None:
    os.kill(spark.container, signal.SIGKILL)
    assert spark.end() == 1


def test_a_crash_goes_on_to_the_standby_and_that_has_a_successor(spark: Spark) -> None:
    waits = with_standby(spark)
    crash(spark)
    assert lives(waits)
    successor = with_standby(spark)
    assert TAKEN in spark.log
    until(lambda: spark.starts == [("warm", ""), ("standby", "")])
    assert spark.container == waits != successor
    assert (spark.root.parent / "starts").read_text().split() == ["spark-a"]
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    assert not lives(successor)


def test_docker_may_be_removing_it_still(spark: Spark) -> None:
    """Where it is only attached to: no hard end of the Spark is to be counted for that."""
    with_standby(spark)
    crash(spark)
    with_standby(spark)
    spark.set("removing")
    crash(spark)
    assert "may still be there" not in spark.log


def test_a_stop_leaves_none(spark: Spark) -> None:
    waits = with_standby(spark)
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    assert not lives(waits)
    assert not list((spark.root / "state").glob("standby@*"))


def test_a_stop_while_docker_removes_an_engine_that_has_ended_leaves_none(spark: Spark) -> None:
    """Which may take a minute: it has 100 GB to give back."""
    waits = with_standby(spark)
    spark.set("slow-rm")
    os.kill(spark.container, signal.SIGKILL)
    removes = f"rm --force vllm-{RELEASE}"
    until(lambda: spark.docker.count(removes) == 2)
    spark.signal(signal.SIGTERM)
    # The program has heard of it.
    spark.live_on()
    spark.set("slow-rm", False)
    assert spark.end() == 0
    assert not lives(waits)


def test_a_stop_while_docker_renames_it_leaves_none(spark: Spark) -> None:
    waits = with_standby(spark)
    crash(spark)
    spark.set("slow-rename")
    spark.start()
    until(lambda: not spark.standby)
    spark.signal(signal.SIGTERM)
    assert spark.end() == 0
    assert not lives(waits)


def test_a_killed_supervisor_has_a_successor_that_finds_it(spark: Spark) -> None:
    waits = with_standby(spark)
    left = spark.container
    spark.kill()
    spark.start()
    spark.wait_ready()
    assert TAKEN in spark.log
    assert not lives(left)
    assert spark.container == waits


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_one_that_cannot_go_on_is_replaced_by_a_start(spark: Spark, number: signal.Signals) -> None:
    waits = with_standby(spark, **{"standby.SETTLED": patience(1)})
    crash(spark)
    os.kill(waits, number)
    # One that is dead is not waited for.
    spark.start(**{"standby.HEEDED": 1e6 if number == signal.SIGKILL else patience(0.2)})
    spark.wait_ready()
    assert USELESS in spark.log
    assert spark.container != waits
    assert not lives(waits)


def test_one_without_a_socket_is_replaced_by_a_start(spark: Spark) -> None:
    waits = with_standby(spark)
    crash(spark)
    (spark.root / f"sockets/engines/{RELEASE}/standby.sock").unlink()
    spark.start()
    spark.wait_ready()
    assert USELESS in spark.log
    assert not lives(waits)


@pytest.mark.parametrize("room", [0, 1 << 60])
def test_there_is_none_without_room(spark: Spark, room: int) -> None:
    spark.unit(standby=room)
    spark.start()
    spark.wait_ready()
    spark.live_on()
    assert not spark.standby
    assert not list((spark.root / "state").glob("standby@*"))


def test_there_is_none_beside_that_of_another_release(spark: Spark) -> None:
    other = spark.root / "state/standby@other-00000000"
    other.mkdir()
    (other / "alive").touch()
    spark.start()
    spark.wait_ready()
    spark.live_on()
    assert not spark.standby
    # Its supervisor gives no sign any more.
    os.utime(other / "alive", (0, 0))
    until(lambda: spark.standby_waits)


def test_there_is_none_beside_another_engine(spark: Spark) -> None:
    """A switch has found memory for both of them, and the second may not have taken its own yet."""
    other = spark.root / "state/running@other-00000000"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    other.write_text(json.dumps({"boot": boot, "time": 0}))
    spark.start()
    spark.wait_ready()
    spark.live_on()
    assert not spark.standby
    other.unlink()
    until(lambda: spark.standby_waits)


def removed_by_a_switch(spark: Spark) -> Path:
    """Remove what a switch does, where Docker knows of no container; return its own one's sign."""
    other = spark.root / "state/standby@other-00000000/alive"
    other.parent.mkdir()
    other.touch()
    shutil.rmtree(spark.root / f"state/standby@{RELEASE}")
    return other


def test_one_that_a_switch_removes_as_it_begins_is_none_and_has_a_successor(spark: Spark) -> None:
    spark.set("slow-run")
    spark.start()
    spark.wait_ready()
    until((spark.root / f"state/standby@{RELEASE}/alive").exists)
    other = removed_by_a_switch(spark)
    spark.set("slow-run", False)
    until(lambda: "the standby has ended" in spark.log)
    assert not spark.standby
    # The switch has been taken back, and this engine serves on.
    other.unlink()
    until(lambda: spark.standby_waits)


def test_one_that_a_switch_wanted_to_remove_ends(spark: Spark) -> None:
    """Docker did not answer, and the candidate is about to take the memory."""
    waits = with_standby(spark)
    removed_by_a_switch(spark)
    until(lambda: not lives(waits))
    spark.lives_on()


def test_one_that_never_waits_is_not_tried_again(spark: Spark) -> None:
    spark.set("never-waits")
    spark.start()
    spark.wait_ready()
    until(lambda: "no standby came to wait" in spark.log)
    spark.live_on()
    assert spark.log.count("no standby came to wait") == 1
    spark.lives_on()


def test_one_that_is_lost_has_a_successor(spark: Spark) -> None:
    """Such as one that the kernel has ended in a full memory."""
    waits = with_standby(spark)
    os.kill(waits, signal.SIGKILL)
    until(lambda: spark.standby_waits and spark.standby != waits)
    spark.lives_on()
    until(lambda: "the standby has ended" in spark.log)
