"""speed URL MODEL: print the speed of one answer of an engine, in tokens a second.

The best of a few streams counts: what others ask of the engine meanwhile can only make it slower.
"""

import json
import time
import urllib.request
from itertools import islice

from host.common.command_line import words

STREAMS = 3
# Long enough that a token more or less at either end is lost in it: 5 s at 40 tokens a second.
TOKENS = 200
PATIENCE = 120
# An answer's lines, and the bytes of one: each token has two of some hundred bytes.
LINES, LINE = 10 * TOKENS, 1 << 16
QUESTION = "Write a long essay on the history of bridges."


def speed(url: str, model: str) -> float:
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
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    seen: list[tuple[float, int]] = []
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
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
    url, model = words(__doc__, "URL", "MODEL")
    try:
        print(f"{max(speed(url, model) for _ in range(STREAMS)):.1f}")
    except (OSError, ValueError) as error:
        print(f"no speed could be measured: {error}")
