"""What an engine is asked, by what its recipe says that it answers, and what its answer proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkwright.common.part import read_json
from sparkwright.declared.recipe.recipe import Answers

# What was asked, and the keys of the number in its answer that proves it.
_PROOFS: dict[Answers, tuple[str | int, ...]] = {
    "chat": ("a completion of one token", "usage", "completion_tokens"),
    "embeddings": ("a request of /v1/embeddings", "data", 0, "embedding", 0),
    "scores": ("a request of /v1/rerank", "results", 0, "relevance_score"),
}


@dataclass(frozen=True)
class Question:
    """What is posted to a path."""

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
    asked, *keys = _PROOFS[answers]
    number = _number(answer, *keys)
    if number is None:
        return f"{asked} gave: {answer[:300] or 'no answer'}"
    if answers == "chat" and number < 1:
        return f"{asked} came back without a token"
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
