"""The work of an engine, by vLLM's /metrics."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from host.common.seat import SOCKET, SOCKETS
from host.state.readers import run

# vLLM's names: facts of 0.20 to 0.33. With data parallelism there is a line for each engine.
LOAD = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prompt_tokens_total", "generation_tokens_total"),
    *("spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"),
)
FINISHED = ("request_success_total", "request_generation_tokens_bucket")
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{(.*)\})? (\d[\d.e+-]*)$", re.MULTILINE)
_REASON = re.compile(r'finished_reason="(\w+)"')


def load(root: str, release: str) -> dict[str, Any] | None:
    """Return the load of an engine within a second; None where it does not answer."""
    begun, before = time.monotonic(), _metrics(root, release)
    if not before:
        return None
    time.sleep(1)
    seconds = time.monotonic() - begun
    return between(before, _metrics(root, release), seconds)


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


def finished(root: str, release: str) -> dict[str, int] | None:
    """Return how the requests of an engine have ended; None where it does not tell."""
    return ends(_metrics(root, release))


def ends(text: str) -> dict[str, int] | None:
    """Return how many requests ended by their `max_tokens`, and how many by the model itself.

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


def _metrics(root: str, release: str) -> str:
    # Only root reaches an engine beside its door; the path of its socket may be too long for curl.
    become = () if os.geteuid() == 0 else ("sudo", "-n")
    asked = f'cd "$0" && exec curl --silent --max-time 5 --unix-socket {SOCKET} "$1"'
    folder = f"{root}/{SOCKETS}/{release}"
    return run(*become, "sh", "-c", asked, folder, "http://localhost/metrics").stdout
