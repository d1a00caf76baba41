"""The checkup of a Spark, its engine and its GPU: everything that the doctor judges."""

from typing import ClassVar

from pydantic import Field

from sparkwright.common.part import Bounded, Part
from sparkwright.common.startup import Start
from sparkwright.engine.state import EngineUnit
from sparkwright.machine.host.survey import Kernel
from sparkwright.plan.causes.thresholds import FAULT_BUSY, FAULT_MHZ, FAULT_WATTS


class GpuReading(Bounded):
    """The readings of nvidia-smi: MHz, W, °C, %, bytes, and bits of reasons for a low clock."""

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


class FailedSwitch(Bounded):
    """The last switch, which failed at this second since the epoch; its engine's messages."""

    release: str
    at: int
    reason: str
    log: tuple[str, ...]


class HardDown(Bounded):
    """When a Spark went down and came back (seconds since the epoch), why, and its last lines."""

    at: int
    back: int
    cause: str
    said: str
    lines: tuple[str, ...]


class Finished(Bounded):
    """Requests since the engine's start that `max_tokens` cut, or the model ended; no probes."""

    cut: int
    ended: int


class Checkup(Part):
    """The state of one Spark.

    Attributes:
        starts: of the release and others with its recipe and image, the last one last.
        log: messages of the engine's last invocation, and of the one before if it restarted by
            itself; then those of kernel, earlyoom and logind since.
        clock, skew: seconds since the epoch, and how far that is ahead of the machine's here.
        driver, docker: the versions of those that are loaded and answer.
        memory: total, free and available, in bytes.
        swapped: bytes that went to and from the disk within the second of the reading.
        free: bytes that are free, by folder.
        gpu_inside: output of nvidia-smi in the engine's container; "" without one.
        cpu: clock of its fastest core, in MHz.
        nic: the state of its network card's PCIe links, as lspci words it.
        downs: how often it went down hard within a day while its engine ran.
        down: the last time, by its flight recorder.
        system: versions, for a report.
    """

    part: ClassVar = "checkup"

    release: str | None
    unit: EngineUnit | None
    starts: tuple[Start, ...] = ()
    log: tuple[str, ...]
    clock: float
    skew: float = 0.0
    kernel: Kernel
    driver: str | None
    memory: tuple[int, int, int]
    swapped: int
    free: dict[str, int]
    docker: str | None
    runtimes: tuple[str, ...]
    gpu: GpuReading | None
    gpu_inside: str
    downs: int
    down: HardDown | None = None
    finished: Finished | None
    failed: FailedSwitch | None = None
    cpu: float | None = None
    nic: tuple[str, ...] = ()
    system: dict[str, str] = Field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Tell whether the engine has run without a break since its first start."""
        unit = self.unit
        steady = unit is not None and unit.active == "active" and not unit.starting
        return steady and not self.downs and not (unit and unit.restarts)


def gpu_lost(inside: str) -> str | None:
    """Return what shows, by nvidia-smi in a container, that it has lost the GPU; None without."""
    # Other errors prove nothing: an image may lack nvidia-smi.
    lost = "Failed to initialize NVML" in inside
    return f"nvidia-smi in the container: {inside}" if lost else None


def has_power_fault(clock: float, power: float | None) -> bool:
    """Tell whether MHz and watts of a GB10 under load are those of the power-delivery fault."""
    return clock <= FAULT_MHZ and (power is None or power <= FAULT_WATTS)
