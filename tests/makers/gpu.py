"""The readings of a GPU."""

from typing import Any

from sparkwright.insight.doctor.checkup import GpuReading


def gpu(
    clock: float | None, power: float | None, busy: float | None = 96.0, **other: Any
) -> GpuReading:
    memory = dict.fromkeys(("memory_used", "memory_free", "memory_total"))
    values = {"clock": clock, "power": power, "temperature": 50.0, "busy": busy, "reasons": None}
    return GpuReading(name="NVIDIA GB10", driver="580.173.02", **memory | values | other)
