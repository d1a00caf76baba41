"""Sparks as the status reads them."""

from dataclasses import replace
from typing import Any

from sparkwright.insight.status.status import Reading, SparkRow, parse_status

RELEASE = "lab-tiny-0a1b2c3d"

UNITS = f"""\
Id=vllm@{RELEASE}.service
ActiveState=active
NRestarts=2
NeedDaemonReload=no
Job=
StatusText=serving

Id=vllm@lab-tiny-99999999.service
ActiveState=activating
NRestarts=0
NeedDaemonReload=no
Job=17
StatusText=starting the engine"""
SOUND = UNITS.split("\n\n")[0].replace("NRestarts=2", "NRestarts=0")
# Two engines, as with data parallelism; drafts.
COUNTERS = """\
{time}
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
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} 126.0"""


def output(**changes: str) -> list[str]:
    """Return what the script prints on a Spark that serves, but for some sections."""
    parts = {
        "current": f"releases/{RELEASE}",
        "enabled": f"vllm@{RELEASE}.service",
        "share": "",
        "switches": "",
        "door": "",
        "units": UNITS,
        "release": '{"recipe": "lab-tiny", "port": 18001}',
        "since": "@1795240000",
        "first": COUNTERS.format(time="1795247431.25", read="100.0", written="1000.0"),
        "gpu": "2405, 61.42, 67, 96, [N/A], [N/A]",
        "clock limit": "",
        "second": COUNTERS.format(time="1795247432.50", read="350.0", written="1050.0"),
        "memory": "127601452\n54525952",
        "disk": "1000000000000",
        "door unit": "active",
        "held": "0",
        **changes,
    }
    return [line for name, text in parts.items() for line in [f"@@{name}", *text.splitlines()]]


def row(reading: Reading | None, **changes: Any) -> SparkRow:
    return replace(SparkRow("spark-a", "chat", "lab-tiny", 0, reading), **changes)


SERVES = parse_status(output(units=SOUND))
