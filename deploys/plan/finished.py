"""What vLLM's /metrics says of how requests ended."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SAMPLE = re.compile(r"^vllm:(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)$")
_REASON = re.compile(r'finished_reason="(\w+)"')


@dataclass(frozen=True)
class Finished:
    """Requests since the engine's start, those of one token left out: they are our probes.

    Attributes:
        cut: ended by their `max_tokens`.
        ended: ended by the model itself.
    """

    cut: int
    ended: int


def finished(lines: Iterable[str]) -> Finished | None:
    """Return how requests ended by the lines of /metrics; None where they do not tell."""
    reasons: dict[str, float] = {}
    probes = 0.0
    for sample in filter(None, map(_SAMPLE.match, lines)):
        reason = _REASON.search(sample["labels"])
        if reason and sample["name"] == "request_success_total":
            reasons[reason[1]] = reasons.get(reason[1], 0) + float(sample["value"])
        elif 'le="1.0"' in sample["labels"]:
            probes += float(sample["value"])
    if not reasons:
        return None
    # Of one token are the probes alone, but for a client that asks the same.
    return Finished(
        cut=max(0, int(reasons.get("length", 0) - probes)), ended=int(reasons.get("stop", 0))
    )
