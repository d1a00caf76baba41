"""The life of an engine that embeds texts or scores documents."""

import pytest

from tests.component.engine.sparks import ERRORS, HANGS, Spark
from tests.component.servers import until


@pytest.fixture(params=["embeddings", "scores"])
def pooling(spark: Spark, request: pytest.FixtureRequest) -> Spark:
    """A Spark whose release says what its engine answers."""
    spark.unit(answers=request.param)
    return spark


def test_an_answer_without_numbers_is_none(pooling: Spark) -> None:
    pooling.set("empty")
    pooling.start(**ERRORS)
    until(lambda: pooling.asked.count("200") > 3)
    assert "READY=1" not in pooling.notified
    pooling.set("empty", False)
    pooling.wait_ready()
    answered = pooling.asked.count("200")
    until(lambda: pooling.asked.count("200") > answered + 3)
    pooling.set("empty")
    assert pooling.end() == 1
    assert "gave status 200: " in pooling.log
    assert "3 times in a row" in pooling.log


def test_a_hang_is_seen_and_killed(pooling: Spark) -> None:
    pooling.start(**HANGS)
    pooling.wait_ready()
    pooling.set("hang")
    assert pooling.end() == 1
    assert "3 times in a row" in pooling.status


def test_what_nobody_knows_how_to_ask_for(pooling: Spark) -> None:
    pooling.unit(answers="songs")
    pooling.start()
    assert pooling.end() == 2
    assert "unit.json: KeyError('songs')" in pooling.status
