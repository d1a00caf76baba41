"""The KV cache is measured once: later engines of a release and their standbys are told."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.common import starts
from tests.component.engine.sparks import NAMES, RELEASE, Spark, group, serve
from tests.component.servers import free_port, until

# Of 2.00 GiB as vLLM rounds them.
TOLD = "2142114938"
BUDGET = 4 << 30


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    spark = Spark(tmp_path / "spark-a", "spark-a", free_port())
    spark.prepare(0, ("spark-a",))
    measured(spark)
    yield spark
    spark.close()


def measured(spark: Spark) -> None:
    """Have an earlier start of the release be known, that served."""
    known = {"at": 1, "release": RELEASE, "recipe": "tiny", "image": "i", "kind": "warm"}
    known |= {"seconds": 60, "phases": {}, "kv_gib": 2.0, "failed": ""}
    (spark.root / "state/starts").write_text(json.dumps(known) + "\n")
    spark.unit(kv_cache=BUDGET)


def told(spark: Spark) -> str | None:
    """Return the bytes that its container was started with."""
    return spark.environment.get(starts.KV_CACHE)


def test_an_engine_and_its_standby_are_told_and_so_is_the_next_one(spark: Spark) -> None:
    spark.unit(standby=1)
    spark.start()
    spark.wait_ready()
    assert told(spark) == TOLD
    until(lambda: spark.standby_waits)
    waits = spark.standby
    os.kill(spark.container, signal.SIGKILL)
    assert spark.end() == 1
    spark.start()
    spark.wait_ready()
    assert (spark.container, told(spark)) == (waits, TOLD)
    until(lambda: len(spark.starts) == 3)
    assert {each["kv_gib"] for each in starts.read(spark.root)} == {2.0}


def test_a_standby_that_was_told_of_nothing_makes_way_for_an_engine_that_is(spark: Spark) -> None:
    known = (spark.root / "state/starts").read_text()
    (spark.root / "state/starts").unlink()
    spark.unit(standby=1)
    spark.start()
    spark.wait_ready()
    until(lambda: spark.standby_waits and spark.starts)
    (spark.root / "state/starts").write_text(known)
    os.kill(spark.container, signal.SIGKILL)
    assert spark.end() == 1
    spark.start()
    spark.wait_ready()
    assert "of no use" in spark.log
    assert told(spark) == TOLD


def test_after_a_start_that_failed_the_next_one_measures(spark: Spark) -> None:
    spark.set("status", text="1")
    spark.start()
    assert spark.end() == 1
    assert told(spark) == TOLD
    spark.set("status", on=False)
    for _ in range(2):
        spark.start()
        spark.wait_ready()
        assert told(spark) is None
        spark.signal(signal.SIGTERM)
        assert spark.end() == 0


@pytest.mark.parametrize("budget", [0, int(TOLD) - 1])
def test_more_than_the_plan_has_is_not_told(spark: Spark, budget: int) -> None:
    spark.unit(kv_cache=budget)
    spark.start()
    spark.wait_ready()
    assert told(spark) is None


@pytest.mark.parametrize("forgets", [0, 1, 2, None])
def test_a_group_is_told_as_a_whole_or_not_at_all(tmp_path: Path, forgets: int | None) -> None:
    """An engine that measures captures CUDA graphs with the others."""
    sparks = group(tmp_path, 3)
    try:
        for rank, spark in enumerate(sparks):
            if rank != forgets:
                measured(spark)
        serve(sparks)
        expected = TOLD if forgets is None else None
        assert [told(spark) for spark in sparks] == [expected] * len(NAMES[:3])
    finally:
        for spark in sparks:
            spark.close()
