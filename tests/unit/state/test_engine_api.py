"""The work of an engine, by vLLM's /metrics."""

import re

from host.state import engine_api
from sparkwright.insight.status.status import EngineLoad
from tests.makers.status import COUNTERS, LOAD

FIRST = COUNTERS.format(read="100.0", written="1000.0")
SECOND = COUNTERS.format(read="350.0", written="1050.0")


def load(first: str, second: str) -> EngineLoad:
    found = engine_api.between(first, second, 1.25)
    assert found
    return EngineLoad(**found)


def test_the_load_is_the_difference_of_two_looks() -> None:
    """An engine that goes down in between has none; one that starts counts from nothing."""
    assert load(FIRST, SECOND) == LOAD
    assert engine_api.between(FIRST, "", 1.0) is None
    found = load(FIRST, COUNTERS.format(read="1.0", written="3.0"))
    assert (found.tokens, found.prompt_tokens) == (0.0, 0.0)


def test_what_a_vllm_lacks_is_unknown() -> None:
    first, second = (
        "".join(line for line in text.splitlines(True) if not re.search("running|kv_|spec_", line))
        for text in (FIRST, SECOND)
    )
    found = load(first, second)
    assert (found.running, found.kv_usage, found.acceptance) == (None, None, None)
    assert (found.tokens, found.waiting) == (40.0, 2)


# Lines of /metrics as vLLM 0.26.0 and 0.32.0 print them; the numbers are made up.
METRICS = """\
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 44.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0.0
vllm:request_generation_tokens_bucket{engine="0",le="1.0",model_name="m"} 40.0
vllm:request_generation_tokens_bucket{engine="0",le="2.0",model_name="m"} 41.0
vllm:request_generation_tokens_bucket{engine="0",le="+Inf",model_name="m"} 47.0
"""


def test_how_requests_ended_without_our_probes() -> None:
    assert engine_api.ends(METRICS) == {"cut": 4, "ended": 3}
    assert engine_api.ends("") is None
