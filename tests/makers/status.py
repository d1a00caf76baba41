"""Sparks as the status reads them."""

from dataclasses import replace
from typing import Any

from sparkwright.engine.state import EngineUnit
from sparkwright.insight.status.state import EngineLoad, Reading, SparkRow
from tests.makers.gpu import gpu

RELEASE = "lab-tiny-0a1b2c3d"
# Two engines, as with data parallelism; drafts.
COUNTERS = """\
vllm:num_requests_running{{engine="0",model_name="m"}} 3.0
vllm:num_requests_running{{engine="1",model_name="m"}} 1.0
vllm:num_requests_waiting{{engine="0",model_name="m"}} 2.0
vllm:num_requests_waiting{{engine="1",model_name="m"}} 0.0
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.25
vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} 0.125
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {read}
vllm:generation_tokens_total{{engine="0",model_name="m"}} {written}
vllm:generation_tokens_total{{engine="1",model_name="m"}} 7.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} 200.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} 126.0
"""
UNIT = EngineUnit(
    release=RELEASE,
    active="active",
    restarts=0,
    enabled=True,
    outdated=False,
    starting=False,
    status="serving",
    since=1795240000,
)
LOAD = EngineLoad(
    tokens=40.0, prompt_tokens=200.0, running=4, waiting=2, kv_usage=0.25, acceptance=0.63
)
SERVES = Reading(
    release=RELEASE,
    recipe="lab-tiny",
    models=("tiny",),
    unit=UNIT,
    others=(),
    switches=(),
    load=LOAD,
    gpu=gpu(2405.0, 61.42, temperature=67.0),
    clock_limit=None,
    memory_total=127601452 * 1024,
    memory_available=54525952 * 1024,
    disk_free=10**12,
    door="active",
    held=0,
)


def row(reading: Reading | None, **changes: Any) -> SparkRow:
    return replace(SparkRow("spark-a", "chat", "lab-tiny", 0, reading), **changes)
