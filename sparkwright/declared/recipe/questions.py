"""What an engine is asked, by what its recipe says that it answers, and what its answer proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkwright.common.part import read_json
from sparkwright.declared.recipe.recipe import Answers


@dataclass(frozen=True)
class Question:
    """A request.

    Attributes:
        path: Of the endpoint.
        body: What is posted there.
    """

    path: str
    body: dict[str, Any]


def shortest(answers: Answers, model: str) -> Question:
    """Return the request that takes an engine the least work."""
    if answers == "embeddings":
        return Question("/v1/embeddings", {"model": model, "input": "Hi"})
    if answers == "scores":
        return Question("/v1/rerank", {"model": model, "query": "Hi", "documents": ["Hi"]})
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    return Question("/v1/chat/completions", body)


def example(answers: Answers, model: str) -> Question:
    """Return a request that a person can judge the answer of."""
    if answers == "embeddings":
        return Question("/v1/embeddings", {"model": model, "input": "A bridge over a river"})
    if answers == "scores":
        documents = ["Paris is the capital of France.", "A bridge crosses a river."]
        body = {"model": model, "query": "What is the capital of France?", "documents": documents}
        return Question("/v1/rerank", body)
    messages = [{"role": "user", "content": "What is 17 x 23?"}]
    return Question("/v1/chat/completions", {"model": model, "messages": messages})


def problem(answers: Answers, answer: str) -> str | None:
    """Return why the answer to the shortest request proves nothing; None if it does."""
    shown = answer[:300] or "no answer"
    if answers == "chat":
        tokens = _number(answer, "usage", "completion_tokens")
        if tokens is None:
            return f"a completion of one token gave: {shown}"
        return None if tokens >= 1 else "a completion of one token came back without a token"
    embedding: tuple[str | int, ...] = ("data", 0, "embedding", 0)
    keys = embedding if answers == "embeddings" else ("results", 0, "relevance_score")
    if _number(answer, *keys) is None:
        return f"a request of {shortest(answers, '').path} gave: {shown}"
    return None


def _number(answer: str, *keys: str | int) -> float | None:
    """Return the finite number that is under these keys of a JSON text; None without one."""
    try:
        found: Any = read_json(answer)
        for key in keys:
            found = found[key]
        return float(found)
    except (ValueError, KeyError, IndexError, TypeError):
        return None
