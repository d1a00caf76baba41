"""The load of an engine and the ends of its requests, by vLLM's /metrics."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkwright.common.placed import SOCKET

# vLLM's names: facts of 0.20 to 0.33. With data parallelism there is a line for each engine.
LOAD = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prompt_tokens_total", "generation_tokens_total"),
    *("spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"),
)
FINISHED = ("request_success_total", "request_generation_tokens_bucket")

_SAMPLE = re.compile(r"^vllm:(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\d[\d.e+-]*)$")
_REASON = re.compile(r'finished_reason="(\w+)"')


class _Sample(NamedTuple):
    name: str
    labels: str
    value: float


@dataclass(frozen=True)
class EngineLoad:
    """The work of an engine, by two readings of its counters.

    Attributes:
        tokens: generated in a second, by all requests together.
        prompt_tokens: read in a second, including those from the prefix cache.
        running, waiting: requests; None if this vLLM has no such metric.
        kv_usage: share of the KV cache that is in use, 0 to 1; None if this vLLM has no such
            metric.
        acceptance: share of the drafted tokens that were accepted since the engine's start; None
            without drafts.
    """

    tokens: float
    prompt_tokens: float
    running: int | None
    waiting: int | None
    kv_usage: float | None
    acceptance: float | None


@dataclass(frozen=True)
class Finished:
    """Requests since the engine's start, without those of one token, which are our probes.

    Attributes:
        cut: ended by their `max_tokens`.
        ended: ended by the model itself.
    """

    cut: int
    ended: int


def metrics_command(names: Iterable[str], root: str = "") -> str:
    """Return the shell command that prints these metrics of the engine of `$sockets`, if it can.

    Args:
        root: words for the shell by which a command runs as root; "" where it does so anyway.
    """
    return (
        f"{ask('$sockets', '/metrics', '--silent --max-time 5', root)} 2>/dev/null "
        f"| grep -E '^vllm:({'|'.join(names)})[{{ ]'"
    )


def ask(folder: str, path: str, options: str, root: str = "") -> str:
    """Return the shell command that asks an engine by curl.

    The path of its socket may be too long for an address: curl runs in the socket's folder.
    """
    asked = f'cd "$0" && exec curl --unix-socket {SOCKET} "$@"'
    return f"{root} sh -c {shlex.quote(asked)} {folder} {options} http://localhost{path}".lstrip()


def load(first: Sequence[str], second: Sequence[str]) -> EngineLoad | None:
    """Return the load between two readings of `LOAD`; None without them.

    Args:
        first, second: the seconds since the epoch, then the lines of /metrics.
    """
    if len(first) < 2 or len(second) < 2:
        return None
    before, after = _counters(first[1:]), _counters(second[1:])
    seconds = float(second[0]) - float(first[0])

    def rate(name: str) -> float:
        # An engine that was started in between counts from 0.
        return max(0.0, after.get(name, 0.0) - before.get(name, 0.0)) / seconds

    def count(name: str) -> int | None:
        return round(after[name]) if name in after else None

    drafted = after.get("spec_decode_num_draft_tokens_total")
    accepted = after.get("spec_decode_num_accepted_tokens_total", 0.0)
    return EngineLoad(
        tokens=rate("generation_tokens_total"),
        prompt_tokens=rate("prompt_tokens_total"),
        running=count("num_requests_running"),
        waiting=count("num_requests_waiting"),
        kv_usage=after.get("kv_cache_usage_perc"),
        acceptance=accepted / drafted if drafted else None,
    )


def finished(lines: Iterable[str]) -> Finished | None:
    """Return how requests ended by the lines of /metrics; None without such metrics."""
    reasons: dict[str, float] = {}
    probes = 0.0
    for name, labels, value in _samples(lines):
        reason = _REASON.search(labels)
        if reason and name == "request_success_total":
            reasons[reason[1]] = reasons.get(reason[1], 0) + value
        elif 'le="1.0"' in labels:
            probes += value
    if not reasons:
        return None
    # A client's requests of one token count as probes.
    return Finished(
        cut=max(0, int(reasons.get("length", 0) - probes)), ended=int(reasons.get("stop", 0))
    )


def _samples(lines: Iterable[str]) -> Iterator[_Sample]:
    for found in filter(None, map(_SAMPLE.match, lines)):
        yield _Sample(found["name"], found["labels"] or "", float(found["value"]))


def _counters(lines: Iterable[str]) -> dict[str, float]:
    """Return each metric's sum over the engines; of a share its maximum."""
    found: dict[str, float] = {}
    for name, _, value in _samples(lines):
        old = found.get(name, 0.0)
        found[name] = max(old, value) if name.endswith("_perc") else old + value
    return found
