"""The API of an engine, asked on its socket: its speed, and its work by vLLM's /metrics."""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from host.common.seat import SOCKET, SOCKETS, engine_address
from host.state.readers import exchange, run

# Bytes of an answer: vLLM's metrics, by far the longest, have some hundred thousand.
_MOST = 8 << 20
# The measurement of a speed.
_ANSWERS = 3
# Long enough that the time before the first token is lost in it: 5 s at 40 tokens a second.
_TOKENS = 200
_PATIENCE = 120.0
_QUESTION = "Write a long essay on the history of bridges."
# vLLM's names: facts of 0.20 to 0.33. With data parallelism there is a line for each engine.
LOAD = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prompt_tokens_total", "generation_tokens_total"),
    *("spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"),
)
FINISHED = ("request_success_total", "request_generation_tokens_bucket")
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{(.*)\})? (\d[\d.e+-]*)$", re.MULTILINE)
_REASON = re.compile(r'finished_reason="(\w+)"')


def ask(place: str, release: str, path: str, body: Any = None, patience: float = 10.0) -> str:
    """Return what an engine answers to a request, or why it does not answer.

    Args:
        place: The folder of its seat.
        body: What is posted; None to get.
        patience: Seconds for all of it.
    """
    text = "" if body is None else json.dumps(body)
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: localhost\r\n"
    if text:
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    try:
        with engine_address(place, release) as address:
            answer = exchange(address, f"{head}\r\n{text}", patience, _MOST)
    except TimeoutError:
        return f"no answer within {patience:g} s"
    except OSError as error:
        return f"no answer: {error.strerror or error}"
    return answer.partition(b"\r\n\r\n")[2].decode("utf-8", "replace")


def speed(root: str, release: str, model: str) -> dict[str, Any]:
    """Return the tokens a second of one answer; None, and what is said, where there is none.

    The best of a few counts: what others ask of the engine meanwhile can only make it slower.
    """
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


def load(root: str, release: str) -> dict[str, Any] | None:
    """Return the load of an engine within a second; None where it does not answer."""
    begun, before = time.monotonic(), metrics(root, release)
    if not before:
        return None
    time.sleep(1)
    seconds = time.monotonic() - begun
    return between(before, metrics(root, release), seconds)


def between(before: str, after: str, seconds: float) -> dict[str, Any] | None:
    """Return the load by two texts of /metrics; what this vLLM does not count is None."""
    old, new = _counters(before), _counters(after)
    if not new:
        return None

    def rate(name: str) -> float:
        # An engine that was started in between counts from 0.
        return max(0.0, new.get(name, 0.0) - old.get(name, 0.0)) / seconds

    def count(name: str) -> int | None:
        return round(new[name]) if name in new else None

    drafted = new.get("spec_decode_num_draft_tokens_total")
    accepted = new.get("spec_decode_num_accepted_tokens_total", 0.0)
    return {
        "tokens": rate("generation_tokens_total"),
        "prompt_tokens": rate("prompt_tokens_total"),
        "running": count("num_requests_running"),
        "waiting": count("num_requests_waiting"),
        "kv_usage": new.get("kv_cache_usage_perc"),
        "acceptance": accepted / drafted if drafted else None,
    }


def ends(text: str) -> dict[str, int] | None:
    """Return how many requests ended by `max_tokens`, and by the model itself; None if unknown.

    Those of one token do not count: they are our probes.
    """
    reasons: dict[str, float] = {}
    probes = 0.0
    for name, labels, value in samples(text, FINISHED):
        reason = _REASON.search(labels)
        if reason and name == "request_success_total":
            reasons[reason[1]] = reasons.get(reason[1], 0) + value
        elif 'le="1.0"' in labels:
            probes += value
    if not reasons:
        return None
    return {
        "cut": max(0, int(reasons.get("length", 0) - probes)),
        "ended": int(reasons.get("stop", 0)),
    }


def _counters(text: str) -> dict[str, float]:
    """Return each metric's sum over the engines; of a share its maximum."""
    found: dict[str, float] = {}
    for name, _, value in samples(text, LOAD):
        old = found.get(name, 0.0)
        found[name] = max(old, value) if name.endswith("_perc") else old + value
    return found


def samples(text: str, names: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """Yield name, labels and value of each sample of these metrics."""
    for name, labels, value in _SAMPLE.findall(text):
        if name in names:
            yield name, labels, float(value)


def metrics(root: str, release: str) -> str:
    """Return what an engine says at /metrics; "" where it does not answer."""
    # Only root reaches an engine beside its door; the path of its socket may be too long for curl.
    become = () if os.geteuid() == 0 else ("sudo", "-n")
    asked = f'cd "$0" && exec curl --silent --max-time 5 --unix-socket {SOCKET} "$1"'
    folder = f"{root}/{SOCKETS}/{release}"
    return run(*become, "sh", "-c", asked, folder, "http://localhost/metrics").stdout
