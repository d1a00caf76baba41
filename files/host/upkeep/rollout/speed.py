"""speed ROOT RELEASE MODEL: print the speed of one answer of an engine, in tokens a second.

The best of a few counts: what others ask of the engine meanwhile can only make it slower.
"""

import json
import time

from host.common.command_line import words
from host.state.engine_api import ask

ANSWERS = 3
# Long enough that the time before the first token is lost in it: 5 s at 40 tokens a second.
TOKENS = 200
PATIENCE = 120.0
QUESTION = "Write a long essay on the history of bridges."


def speed(root: str, release: str, model: str) -> float:
    """Return the tokens a second of one answer.

    Raises:
        ValueError: there is no whole answer.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    begun = time.monotonic()
    answer = ask(root, release, "/v1/chat/completions", body, PATIENCE)
    seconds = time.monotonic() - begun
    try:
        return float(json.loads(answer)["usage"]["completion_tokens"]) / seconds
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(" ".join(answer.split())[:200]) from None


def command() -> None:
    """Prints the best of some speeds."""
    root, release, model = words(__doc__, "ROOT", "RELEASE", "MODEL")
    try:
        print(f"{max(speed(root, release, model) for _ in range(ANSWERS)):.1f}")
    except ValueError as error:
        print(f"no speed could be measured: {error}")
