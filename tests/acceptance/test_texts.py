"""Real vLLM that embeds texts, then scores documents, and then does so beside one that chats.

The tests build on one another, in order: vLLM takes its time to start.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import requests

from tests.clock import patience
from tests.driver.client import PORT, ask, authorization
from tests.driver.declared import edited, replica
from tests.driver.product import DEPLOY, Run, pyinfra, verification
from tests.driver.sparks import current, engines, restarted_from_a_hang, unit, until
from tests.lab.spark import Handle
from tests.lab.state import FLEET


@pytest.fixture(scope="module")
def embeds(spark: Handle) -> Iterator[Run]:
    """The run that takes the Spark, which may have held anything, to an engine that embeds."""
    with replica(recipe="lab-embedding"):
        yield pyinfra(DEPLOY).succeeded()


@pytest.fixture(scope="module")
def scores(spark: Handle, embeds: Run) -> Iterator[Run]:
    """The switch to an engine that scores."""
    with replica(recipe="lab-reranker"):
        yield pyinfra(DEPLOY).succeeded()


def post(spark: Handle, path: str, body: object) -> requests.Response:
    """Ask the engine through its door."""
    url = f"http://{spark.address}:{PORT}{path}"
    return requests.post(url, json=body, headers=authorization(), timeout=patience(60))


def embedded(spark: Handle) -> requests.Response:
    """Have a text embedded."""
    return post(spark, "/v1/embeddings", {"model": "tiny-texts", "input": "Hello"})


def test_vectors(spark: Handle, embeds: Run) -> None:
    assert current(spark).startswith("lab-embedding-")
    assert engines(spark) == {unit(spark)}
    answer = embedded(spark).json()
    (found,) = answer["data"]
    assert len(found["embedding"]) == 256
    assert all(map(math.isfinite, found["embedding"]))
    chat = {"model": "tiny-texts", "messages": [{"role": "user", "content": "Hi"}]}
    assert post(spark, "/v1/chat/completions", chat).status_code == 404


def test_a_second_run_changes_nothing(spark: Handle, embeds: Run) -> None:
    before = current(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert current(spark) == before
    pyinfra("deploys/drift.py").succeeded()


def test_verification(embeds: Run) -> None:
    said = verification()
    for sentence in ("embeddings: 256 numbers", "a text alone", "/v1/embeddings through the door"):
        assert sentence in said, said


def test_an_engine_that_hangs_is_restarted(spark: Handle, embeds: Run) -> None:
    """Only a vector that does not come tells."""
    until(spark, f"systemctl is-active {restarted_from_a_hang(spark)}")
    assert embedded(spark).ok


def test_a_benchmark_is_refused_in_words(spark: Handle, embeds: Run) -> None:
    run = pyinfra("deploys/benchmark.py")
    run.fails("lab-embedding answers embeddings; all workloads chat")


def test_a_switch_to_one_that_scores(spark: Handle, scores: Run) -> None:
    """It is asked for scores before it serves."""
    assert current(spark).startswith("lab-reranker-")
    assert engines(spark) == {unit(spark)}
    body = {"model": "tiny-scores", "query": "the server", "documents": ["a cable", "the server"]}
    found = post(spark, "/v1/rerank", body).json()["results"]
    assert sorted(each["index"] for each in found) == [0, 1]
    assert "scores of three documents" in verification()


def test_a_second_engine_beside_it(spark: Handle, scores: Run) -> None:
    """Two replicas of one Spark: the one that scores goes on, one that chats comes."""
    before = current(spark)

    def add(fleet: dict[str, Any]) -> None:
        own = {"recipe": "lab-tiny", "port": PORT + 1}
        fleet["replicas"]["chat"] = deepcopy(fleet["replicas"]["lab1"]) | own

    with edited(FLEET, add):
        pyinfra(DEPLOY).succeeded()
        assert current(spark) == before
        assert len(engines(spark)) == 2
        assert ask(spark, port=PORT + 1).json()["usage"]["completion_tokens"] >= 1
        body = {"model": "tiny-scores", "query": "Hi", "documents": ["Hi"]}
        assert post(spark, "/v1/rerank", body).ok
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        assert "scores of three documents" in verification()
