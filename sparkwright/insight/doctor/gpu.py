"""The present readings of a Spark's GPU, by nvidia-smi."""

from sparkwright.common.part import Bounded
from sparkwright.plan.causes.thresholds import FAULT_BUSY, FAULT_MHZ, FAULT_WATTS


class GpuReading(Bounded):
    """The readings of nvidia-smi: MHz, W, °C, per cent, bytes; None for those that it lacks.

    Attributes:
        reasons: bits of its reasons for a low clock.
    """

    name: str
    driver: str
    clock: float | None
    power: float | None
    temperature: float | None
    busy: float | None
    memory_used: int | None
    memory_free: int | None
    memory_total: int | None
    reasons: int | None

    @property
    def work(self) -> tuple[float, float, float] | None:
        """MHz, watts and per cent busy; None where one of them is missing."""
        if self.clock is None or self.power is None or self.busy is None:
            return None
        return self.clock, self.power, self.busy

    @property
    def held_back(self) -> str | None:
        """The readings that show it slow under load; None where it is not."""
        clock, power, busy = self.work or (0, 0, 0)
        slow = busy >= FAULT_BUSY and has_power_fault(clock, power)
        return f"{clock:.0f} MHz and {power:.0f} W while {busy:.0f} % busy" if slow else None


def gpu_lost(inside: str) -> str | None:
    """Return what shows, by nvidia-smi in a container, that it has lost the GPU; None without."""
    # Other errors prove nothing: an image may lack nvidia-smi.
    lost = "Failed to initialize NVML" in inside
    return f"nvidia-smi in the container: {inside}" if lost else None


def has_power_fault(clock: float, power: float | None) -> bool:
    """Tell whether MHz and watts of a GB10 under load are those of the power-delivery fault.

    Where nvidia-smi has no reading of the power, the clock decides.
    """
    return clock <= FAULT_MHZ and (power is None or power <= FAULT_WATTS)
