"""Tokens a second of an engine for 1, 8 and 36 requests at once.

    python -m tests.gpu.throughput SOCKET [ROUNDS]

Prompts of 1,024 random tokens, 128 tokens of answer, greedy, to the end of the 128. With
36, batches are padded to 48 where our sizes are captured, and to 40 where vLLM's own are.
"""

import json
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from tests.gpu.engine import ask

PROMPT, ANSWER, AT_ONCE = 1024, 128, (1, 8, 36)


def request(api: str, seed: int) -> tuple[float, float]:
    """Return the seconds to the first token and to the last one."""
    numbers = random.Random(seed)
    body = {
        "prompt": [numbers.randrange(1000, 200_000) for _ in range(PROMPT)],
        "max_tokens": ANSWER, "temperature": 0, "ignore_eos": True, "stream": True,
    }  # fmt: skip
    begin = time.monotonic()
    answer = ask(api, "/v1/completions", body)
    first = 0.0
    while line := answer.readline():
        if line.startswith(b"data: {"):
            first = first or time.monotonic() - begin
    return first, time.monotonic() - begin


def main(api: str, rounds: int) -> None:
    """Print a line for each number of requests at once."""
    for at_once in AT_ONCE:
        with ThreadPoolExecutor(at_once) as pool:
            for seeds in (range(at_once), range(at_once, at_once * (rounds + 1))):  # first: warm-up
                begin = time.monotonic()
                times = list(
                    pool.map(request, repeat(api), (at_once << 20 | seed for seed in seeds))
                )
                took = time.monotonic() - begin
        first = statistics.median(time for time, _ in times)
        each = statistics.median((last - time) / (ANSWER - 1) for time, last in times)
        figures = {"at once": at_once, "tokens/s": round(len(times) * ANSWER / took, 1)}
        print(
            json.dumps(figures | {"TTFT ms": round(first * 1e3), "TPOT ms": round(each * 1e3, 2)}),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4)
