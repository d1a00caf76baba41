"""The speed of one answer of an engine, in tokens a second.

The best of a few counts: what others ask of the engine meanwhile can only make it slower.
"""

import json
import time
from typing import Any

from host.state.engine_api import ask

_ANSWERS = 3
# Long enough that the time before the first token is lost in it: 5 s at 40 tokens a second.
_TOKENS = 200
_PATIENCE = 120.0
_QUESTION = "Write a long essay on the history of bridges."


def read(root: str, release: str, model: str) -> dict[str, Any]:
    """Return the tokens a second; None, and what the engine says, where there is no answer."""
    speeds = []
    body = {
        "model": model,
        "messages": [{"role": "user", "content": _QUESTION}],
        "max_tokens": _TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    for _ in range(_ANSWERS):
        begun = time.monotonic()
        answer = ask(root, release, "/v1/chat/completions", body, _PATIENCE)
        seconds = time.monotonic() - begun
        try:
            speeds.append(json.loads(answer)["usage"]["completion_tokens"] / seconds)
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"speed": None, "said": " ".join(answer.split())[:200]}
    return {"speed": round(max(speeds), 1), "said": ""}
