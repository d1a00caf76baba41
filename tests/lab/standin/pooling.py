"""What an engine answers that makes numbers of texts: vectors that are near for the same words."""

import hashlib
import math
import uuid
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Literal

Kind = Literal["chat", "embeddings", "scores"]


def kind(options: Namespace, config: dict[str, Any]) -> Kind:
    if options.runner != "pooling":
        return "chat"
    scores = any(name.endswith("ForSequenceClassification") for name in config["architectures"])
    return "scores" if scores else "embeddings"


def vector(tokens: Sequence[int], size: int) -> list[float]:
    """Return a vector of length 1: the sum of one for each token."""
    numbers = [0.0] * size
    for token in tokens:
        stream = hashlib.shake_256(str(token).encode()).digest(size)
        numbers = [number + byte - 127.5 for number, byte in zip(numbers, stream, strict=True)]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def near(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def embeddings(model: str, vectors: Sequence[Sequence[float]], tokens: int) -> dict[str, Any]:
    data = [
        {"index": index, "object": "embedding", "embedding": each}
        for index, each in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return _head("embd", model) | {"object": "list", "data": data, "usage": usage}


def ranking(
    model: str, documents: Sequence[str], scores: Sequence[float], most: int, tokens: int
) -> dict[str, Any]:
    """Return the answer of /v1/rerank: the best first; 0 for `most` is all of them."""
    found = [
        {"index": index, "document": {"text": text}, "relevance_score": score}
        for index, (text, score) in enumerate(zip(documents, scores, strict=True))
    ]
    found.sort(key=lambda each: -each["relevance_score"])  # type: ignore[operator]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return _head("score", model) | {"usage": usage, "results": found[: most or None]}


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"{kind}-{uuid.uuid4().hex[:16]}", "model": model}
