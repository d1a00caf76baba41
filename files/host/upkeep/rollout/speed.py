"""speed ROOT RELEASE MODEL: print the speed of one answer of an engine, in tokens a second.

The best of a few streams counts: what others ask of the engine meanwhile can only make it slower.
"""

import json
import time
from contextlib import closing
from http.client import HTTPException
from itertools import islice
from pathlib import Path

from host.common.command_line import words
from host.common.probe import Connection

STREAMS = 3
# Long enough that a token more or less at either end is lost in it: 5 s at 40 tokens a second.
TOKENS = 200
PATIENCE = 120
# An answer's lines, and the bytes of one: each token has two of some hundred bytes.
LINES, LINE = 10 * TOKENS, 1 << 16
QUESTION = "Write a long essay on the history of bridges."


def speed(root: Path, release: str, model: str) -> float:
    """Return the tokens a second of one streamed answer, after its first piece.

    Raises:
        OSError, ValueError: there is no whole answer.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        # Each piece then tells how many tokens there are so far: it may hold several.
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    head = {"Content-Type": "application/json"}
    seen: list[tuple[float, int]] = []
    with closing(Connection(root, release, PATIENCE)) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), head)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        for line in islice(iter(lambda: answer.readline(LINE), b""), LINES):
            text = line.decode().removeprefix("data:").strip()
            if not text or text == "[DONE]":
                continue
            tokens = (json.loads(text).get("usage") or {}).get("completion_tokens", 0)
            if tokens > (seen[-1][1] if seen else 0):
                seen.append((time.monotonic(), tokens))
    if len(seen) < 2:
        raise ValueError("the answer came in one piece")
    (began, before), (ended, after) = seen[0], seen[-1]
    return (after - before) / (ended - began)


def command() -> None:
    """Prints the best of `STREAMS` speeds."""
    root, release, model = words(__doc__, "ROOT", "RELEASE", "MODEL")
    try:
        print(f"{max(speed(Path(root), release, model) for _ in range(STREAMS)):.1f}")
    except (OSError, ValueError, HTTPException) as error:
        print(f"no speed could be measured: {error}")
