"""The checkup of a Spark and its engine: everything that the doctor judges."""

from typing import ClassVar

from pydantic import Field

from sparkwright.common.part import Bounded, Part
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.gpu import GpuReading
from sparkwright.machine.host.survey import Kernel


class FailedSwitch(Bounded):
    """The last switch, which failed.

    Attributes:
        at: when it failed, in seconds since the epoch.
        log: messages of its engine's last invocation.
    """

    release: str
    at: int
    reason: str
    log: tuple[str, ...]


class Finished(Bounded):
    """Requests since the engine's start, without those of one token, which are our probes.

    Attributes:
        cut: ended by their `max_tokens`.
        ended: ended by the model itself.
    """

    cut: int
    ended: int


class Checkup(Part):
    """The state of one Spark.

    Attributes:
        release: the one that should serve; None on an idle Spark.
        log: messages of the engine's last invocation, and of the one before if it restarted by
            itself; then those of kernel, earlyoom and logind since.
        clock: its time, in seconds since the epoch.
        skew: seconds by which its clock is ahead of the machine's that runs pyinfra.
        driver: the NVIDIA driver that is loaded; None where none is.
        memory: total, free and available, in bytes.
        swapped: bytes that went to and from the disk within the second of the reading.
        free: bytes that are free, by folder.
        docker: version of the daemon; None when none answers.
        gpu_inside: output of nvidia-smi in the engine's container; None without one.
        cpu: clock of its fastest core, in MHz.
        nic: the state of its network card's PCIe links, as lspci words it.
        downs: how often it went down hard within a day while its engine ran.
        finished: how requests ended; None when the engine does not answer.
        system: versions, for a report.
    """

    part: ClassVar = "checkup"

    release: str | None
    unit: EngineUnit | None
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
    gpu_inside: str | None
    downs: int
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
