"""The thresholds that stand elsewhere as well: in alerts and group data."""

from pathlib import Path
from runpy import run_path

import pytest
import yaml

from sparkwright.plan.causes.thresholds import (
    CLOCK_SKEW,
    EARLYOOM,
    FAULT_BUSY,
    FAULT_MHZ,
    FAULT_WATTS,
    MEMORY_LOW,
    SPIN_BUSY,
    SPIN_WATTS,
)

PROJECT = Path(__file__).parents[4]
FILES = PROJECT / "files" / "host"
GROUP_DATA = run_path(str(PROJECT / "group_data" / "all.py"))
ALERTS = yaml.safe_load((FILES / "insight" / "monitoring" / "alerts.yml").read_text())
RULES = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}


@pytest.mark.parametrize(
    ("alert", "expression"),
    [
        (
            "GpuHeldBack",
            f"spark_gpu_clock_hertz <= {FAULT_MHZ}e6 and spark_gpu_power_watts <= {FAULT_WATTS} "
            f"and spark_gpu_busy_ratio >= {FAULT_BUSY / 100}",
        ),
        (
            "GpuSpins",
            f"spark_gpu_busy_ratio >= {SPIN_BUSY / 100} and spark_gpu_power_watts <= {SPIN_WATTS} "
            f"unless spark_gpu_clock_hertz <= {FAULT_MHZ}e6",
        ),
        (
            "MemoryLow",
            f"spark_memory_available_bytes / spark_memory_total_bytes < {MEMORY_LOW / 100}",
        ),
    ],
)
def test_an_alert_fires_where_doctor_and_status_speak(alert: str, expression: str) -> None:
    assert RULES[alert]["expr"] == expression


def test_the_group_data_are_what_the_doctor_takes_for_granted() -> None:
    assert GROUP_DATA["clock_tolerance"] == CLOCK_SKEW
    assert GROUP_DATA["earlyoom_arguments"].startswith(f"-m {EARLYOOM},")
