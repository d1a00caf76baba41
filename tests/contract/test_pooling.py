"""What an engine answers that embeds texts or scores documents, and how the product watches it."""

import asyncio
import math
import signal
from typing import Any

import pytest

from host.common import probe
from sparkwright.declared.recipe import questions
from sparkwright.declared.recipe.loader import load_recipe
from tests.contract import engines, facts
from tests.contract.conftest import Serve
from tests.contract.engines import (
    COMPLETIONS,
    EMBEDDING,
    MODEL,
    PATIENCE,
    RELEASE,
    RERANKER,
    TOO_LONG,
    Running,
    check_refused,
)

TEXTS = ["the server reads the prompt", "the server reads every prompt", "a cable on a desk"]


@pytest.fixture(params=[EMBEDDING, RERANKER])
def recipe(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def pooled(recipe: str, serve: Serve) -> Running:
    return serve(recipe)


def side(running: Running, recipe: str) -> probe.Engine:
    found = load_recipe(recipe)
    return probe.Engine(running.root, RELEASE, found.served_names[0], found.answers)


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


def test_endpoints(pooled: Running, recipe: str) -> None:
    """None of them chats."""
    found = facts.endpoints(pooled.ask("/openapi.json").json())
    assert found == facts.CAPTURED[facts.endpoints_of(recipe)]
    body = {"model": load_recipe(recipe).served_names[0], "messages": []}
    answer = pooled.ask(COMPLETIONS, body)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


def test_models(pooled: Running, recipe: str) -> None:
    (model,) = pooled.ask("/v1/models").json()["data"]
    name = load_recipe(recipe).served_names[0]
    assert (model["id"], model["root"], model["max_model_len"]) == (name, MODEL, 4096)


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


def test_the_product_is_satisfied(pooled: Running, recipe: str) -> None:
    """By the questions of a run, and by those of the supervisor, which speaks HTTP/1.0."""
    found = load_recipe(recipe)
    for ask in (questions.shortest, questions.example):
        question = ask(found.answers, found.served_names[0])
        answer = pooled.ask(question.path, question.body)
        assert questions.problem(found.answers, answer.text) is None
    engine = side(pooled, recipe)

    async def look() -> None:
        assert await engine.healthy()
        await engine.token()

    asyncio.run(look())


def test_counters_move_by_work_alone(pooled: Running, recipe: str) -> None:
    engine, found = side(pooled, recipe), load_recipe(recipe)

    def counters() -> list[str] | None:
        return asyncio.run(engine.counters())

    before = counters()
    pooled.ask("/health")
    pooled.ask("/v1/models")
    assert before == counters()
    question = questions.shortest(found.answers, found.served_names[0])
    pooled.ask(question.path, question.body)
    engines.until(lambda: counters() != before, "counters that move")


def test_a_core_that_hangs(pooled: Running, recipe: str, watchful: None) -> None:
    """HTTP goes on, counters stand still, and the product's watch notices. It may go on later."""
    engine = side(pooled, recipe)
    for process in ("VLLM::EngineCor", "VLLM::Worker"):
        pooled.signal(process, signal.SIGSTOP)
        assert pooled.ask("/health").ok
        said = asyncio.run(asyncio.wait_for(probe.watch(engine), PATIENCE))
        assert "no token" in said
        assert "3 times in a row" in said
        pooled.signal(process, signal.SIGCONT)
        asyncio.run(asyncio.wait_for(probe.ready(engine), PATIENCE))
