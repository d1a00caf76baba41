"""The proof that an engine really embeds or scores: one text, in time.

As `probe.Engine` has a token generated, `watch` and `ready` of that module ask one of these.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from host.common.probe import Engine, NoTokenError

# "Later, I am busy", as for a token.
_BUSY = (429, 503)
# What an engine that does not chat is asked, by what its unit.json says that it answers.
_QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": "Hi"}),
    "scores": ("/v1/rerank", {"query": "Hi", "documents": ["Hi"]}),
}


def engine(root: Path, release: str, unit: Mapping[str, Any]) -> Engine:
    """Return the HTTP side of a release's engine, which is asked for what it answers.

    Args:
        root: of its seat.
        release: its id.
        unit: its unit.json.

    Raises:
        KeyError: it lacks something, or answers what nobody knows how to ask for.
    """
    of = (root, release, unit["model"])
    return Engine(*of) if unit["answers"] == "chat" else PoolingEngine(*of, unit["answers"])


class PoolingEngine(Engine):
    """The HTTP side of an engine that makes numbers of texts: embeddings, or scores."""

    def __init__(self, root: Path, release: str, model: str, answers: str) -> None:
        super().__init__(root, release, model)
        self._path, question = _QUESTIONS[answers]
        self._question = json.dumps({"model": model, **question})

    async def token(self) -> None:
        """Have one text embedded, or one document scored.

        Raises:
            NoTokenError: what came is not that.
            OSError, ValueError: nothing sensible came.
        """
        status, body = await self._request("POST", self._path, self._question)
        if status in _BUSY:
            raise ValueError(f"status {status}")
        if status != 200 or not _numbers(body):
            answer = " ".join(body.split())[:200]
            raise NoTokenError(f"a request of {self._path} gave status {status}: {answer}")


def _numbers(body: str) -> bool:
    """Tell whether an answer has a vector or a score, of numbers that are some."""
    try:
        answer = json.loads(body)
        (found,) = answer.get("data") or answer["results"]
        numbers = found["embedding"] if "embedding" in found else [found["relevance_score"]]
        return bool(numbers) and all(map(math.isfinite, numbers))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
