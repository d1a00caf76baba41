"""What an engine answers that embeds texts or scores documents, and how the product watches it."""

import asyncio
import math
import signal
from pathlib import Path
from typing import Any

import pytest

from host.common import probe
from sparkwright.common.ports import COPIES_PORT, ENGINE_PORTS
from sparkwright.declared.recipe import questions
from sparkwright.declared.recipe.loader import load_recipe
from tests.contract import engines
from tests.contract.conftest import Serve, Start, copied
from tests.contract.engines import (
    EMBEDDING,
    PATIENCE,
    RERANKER,
    TOO_LONG,
    Running,
    check_refused,
)
from tests.contract.test_metrics import samples

TEXTS = ["the server reads the prompt", "the server reads every prompt", "a cable on a desk"]


@pytest.fixture(params=[EMBEDDING, RERANKER])
def recipe(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def vectors(engine: Running, text: str | list[str]) -> list[list[float]]:
    answer = engine.ask("/v1/embeddings", {"model": "tiny-texts", "input": text}).json()
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    assert answer["usage"]["prompt_tokens"] > 0
    return [each["embedding"] for each in answer["data"]]


def near(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def ranking(engine: Running, **options: Any) -> list[dict[str, Any]]:
    body = {"model": "tiny-scores", "query": "the server", "documents": TEXTS, **options}
    found: list[dict[str, Any]] = engine.ask("/v1/rerank", body).json()["results"]
    return found


def test_embeddings(serve: Serve) -> None:
    """Vectors of one length, in the order of the texts; those of the same words are near."""
    embedding = serve(EMBEDDING)
    one, same, other = vectors(embedding, TEXTS)
    assert {len(each) for each in (one, same, other)} == {256}
    assert near(one, one) == pytest.approx(1, abs=0.01)
    assert near(one, same) > near(one, other) + 0.2
    (alone,) = vectors(embedding, TEXTS[2])
    assert near(alone, other) == pytest.approx(1, abs=0.01)


def test_ranking(serve: Serve) -> None:
    """The best first, all of them or as many as are asked for."""
    reranker = serve(RERANKER)
    found = ranking(reranker)
    assert sorted(each["index"] for each in found) == [0, 1, 2]
    assert [TEXTS[each["index"]] for each in found] == [each["document"]["text"] for each in found]
    scores = [each["relevance_score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3
    assert [each["index"] for each in ranking(reranker, top_n=1)] == [found[0]["index"]]


REFUSED = {
    "no text": ({"model": "tiny-texts"}, 400, "'loc': 'body.input', 'msg': 'Field required'"),
    "another model": ({"model": "nope", "input": "Hi"}, 404, "The model `nope` does not exist."),
    "a text that is too long": ({"model": "tiny-texts", "input": "word " * 5000}, 400, TOO_LONG),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(serve: Serve, case: str) -> None:
    body, status, words = REFUSED[case]
    check_refused(serve(EMBEDDING).ask("/v1/embeddings", body), status, words)


def test_counters_move_by_work_alone(served: Running, watched: probe.Engine, recipe: str) -> None:
    found = load_recipe(recipe)

    def counters() -> list[str] | None:
        return asyncio.run(watched.counters())

    before = counters()
    served.ask("/health")
    served.ask("/v1/models")
    assert before == counters()
    question = questions.shortest(found.answers, found.served_names[0])
    served.ask(question.path, question.body)
    engines.until(lambda: counters() != before, "counters that move")


def test_a_core_that_hangs(served: Running, watched: probe.Engine, watchful: None) -> None:
    """HTTP goes on, counters stand still, and the product's watch notices. It may go on later."""
    for process in ("VLLM::EngineCor", "VLLM::Worker"):
        served.signal(process, signal.SIGSTOP)
        assert served.ask("/health").ok
        said = asyncio.run(asyncio.wait_for(probe.watch(watched), PATIENCE))
        assert "no token" in said
        assert "3 times in a row" in said
        served.signal(process, signal.SIGCONT)
        asyncio.run(asyncio.wait_for(probe.ready(watched), PATIENCE))


@pytest.mark.parametrize("engine", ["vllm"], indirect=True)
def test_copies_on_two_sparks_share_the_texts(start: Start) -> None:
    """Each finds the head's at the port that is theirs; all others are the kernel's choice."""
    head, _ = copied(start, load_recipe(EMBEDDING))
    for number in range(6):
        vectors(head, f"text {number}")
    read = [float(each.split()[-1]) for each in samples(head, ("prompt_tokens_total",))]
    assert len(read) == 2
    assert all(read)
    tables = (Path(f"/proc/{head.server}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    listening = (line.split() for table in tables for line in table.splitlines() if " 0A " in line)
    known = {port for line in listening if (port := int(line[1].rpartition(":")[2], 16)) < 32768}
    assert known <= {*ENGINE_PORTS}
    assert COPIES_PORT in known
