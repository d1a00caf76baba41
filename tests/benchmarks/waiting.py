"""How much processor an engine of several ranks takes with and without our plugin, and its speed.

    python tests/benchmarks/waiting.py [OPTION …] -- vllm serve MODEL --tensor-parallel-size 2 …

starts the engine for each number of seconds in turn, twice, on port 8123, and prints a line of JSON
for each: tokens a second of one request and of several at once, and the cores that all processes of
the engine hold meanwhile and while it is idle. Needs nothing but Python and what it starts; of two
GPUs of one machine both workers are readers, so that there is more to save than on a pair.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUGIN = Path(__file__).parents[2] / "files" / "plugin"
URL = "http://127.0.0.1:8123"
TICKS = os.sysconf("SC_CLK_TCK")
IDLE_SECONDS = 15


def ask(path: str, body: object = None, timeout: float = 900) -> bytes:
    """Return what the engine answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return bytes(answer.read())


def processor(session: int) -> float:
    """Return the seconds of processor that the processes of a session have taken."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measured(session: int, model: str, at_once: int, tokens: int) -> dict[str, float]:
    """Have some requests answered at once; return tokens a second and cores."""
    body = {
        "model": model,
        "prompt": "Count from one to a thousand:",
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    begun, before = time.monotonic(), processor(session)
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: ask("/v1/completions", body), range(at_once)))
    took = time.monotonic() - begun
    cores = (processor(session) - before) / took
    return {"tok_s": round(at_once * tokens / took, 1), "cores": round(cores, 2)}


def run(words: Sequence[str], seconds: str, options: argparse.Namespace) -> dict[str, object]:
    """Start an engine, measure it and end it."""
    env = {**os.environ, "PYTHONPATH": str(options.plugin), "SPARKWRIGHT_SPIN_SECONDS": seconds}
    command = [*words, "--port", URL.rpartition(":")[2]]
    engine = subprocess.Popen(command, env=env, stdout=sys.stderr, start_new_session=True)
    try:
        while True:
            try:
                ask("/health", timeout=5)
                break
            except OSError:
                if engine.poll() is not None:
                    raise SystemExit(f"the engine ended with {engine.returncode}") from None
                time.sleep(1)
        model = json.loads(ask("/v1/models"))["data"][0]["id"]
        measured(engine.pid, model, options.at_once, 32)
        one = measured(engine.pid, model, 1, options.tokens)
        several = measured(engine.pid, model, options.at_once, options.tokens)
        time.sleep(3)
        before = processor(engine.pid)
        time.sleep(IDLE_SECONDS)
        idle = round((processor(engine.pid) - before) / IDLE_SECONDS, 2)
    finally:
        os.killpg(engine.pid, signal.SIGINT)
        try:
            engine.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(engine.pid, signal.SIGKILL)
    return {"spin_s": seconds, "one": one, f"{options.at_once} at once": several, "idle": idle}


def main() -> None:
    """Measure each number of seconds in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", nargs="+", default=["1", "0.0005"], help="1 is vLLM's own")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--plugin", type=Path, default=PLUGIN)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- vllm serve MODEL …")
    options = parser.parse_args()
    words = [word for word in options.command if word != "--"]
    for _ in range(options.rounds):
        for seconds in options.seconds:
            print(json.dumps(run(words, seconds, options)), flush=True)


if __name__ == "__main__":
    main()
