"""The GPU of a Spark, as nvidia-smi tells of it right now."""

from collections.abc import Sequence
from dataclasses import dataclass

_QUERY = "clocks.sm,power.draw,temperature.gpu,utilization.gpu,memory.used,memory.total"
# The shell command whose output `parse_gpu` takes.
GPU_COMMAND = f"nvidia-smi --query-gpu={_QUERY} --format=csv,noheader,nounits"

# Field reports: under load a Spark with the power-delivery fault stays at 500 to 850 MHz and 30 W;
# a sound one draws more than that as soon as it is busy.
_SLOW_MHZ, _SLOW_WATTS, _BUSY = 850, 35, 80


@dataclass(frozen=True)
class Gpu:
    """What nvidia-smi tells: MHz, W, °C, per cent, bytes; None for what it does not."""

    clock: float | None
    power: float | None
    temperature: float | None
    busy: float | None
    memory_used: int | None
    memory_total: int | None

    @property
    def work(self) -> tuple[float, float, float] | None:
        """MHz, watts and per cent busy; None where one of them is not told."""
        if self.clock is None or self.power is None or self.busy is None:
            return None
        return self.clock, self.power, self.busy

    @property
    def held_back(self) -> str | None:
        """The readings by which it is slow under load; None where it is not."""
        if self.work is None:
            return None
        clock, power, busy = self.work
        slow = clock <= _SLOW_MHZ and power <= _SLOW_WATTS and busy >= _BUSY
        return f"{clock:.0f} MHz and {power:.0f} W while {busy:.0f} % busy" if slow else None


def parse_gpu(lines: Sequence[str]) -> Gpu | None:
    """Return the GPU with the most memory: CUDA takes the fastest by itself.

    Args:
        lines: what `GPU_COMMAND` prints, a line for each GPU.
    """
    # Without a driver nvidia-smi says so in a sentence on standard output.
    gpus = [
        Gpu(clock, power, temperature, busy, _bytes(used), _bytes(total))
        for line in lines
        if line.count(",") == _QUERY.count(",")
        for clock, power, temperature, busy, used, total in [map(_number, line.split(","))]
    ]
    return max(gpus, key=lambda gpu: gpu.memory_total or 0) if gpus else None


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib) * 1024**2
