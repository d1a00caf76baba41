"""The container runtime of a Spark, and the proof that it gives containers the GPU."""

from typing import ClassVar

from sparkwright.common.part import Part
from sparkwright.plan.release.container import CONTAINER_OPTIONS


class ContainerRuntime(Part):
    """Docker, NVIDIA's container toolkit, and whether a package source for it is already there.

    Attributes:
        toolkit: version of `nvidia-ctk`; None without it.
        runtimes: names of Docker's runtimes; none where it does not run.
        containers: names of the running containers.
        daemon_json: text of Docker's configuration; "" without one.
        proxies: the values that runs have set there so far, as `daemon_json.recorded`.
    """

    part: ClassVar = "machine.runtime"
    patience: ClassVar = 60

    toolkit: str | None
    repository: bool
    runtimes: tuple[str, ...]
    containers: tuple[str, ...]
    daemon_json: str
    proxies: tuple[str, ...]


class GpuProof(Part):
    """Versions of driver, toolkit, Docker and kernel, and what was proved to get the GPU."""

    part: ClassVar = "machine.gpu_proof"

    versions: tuple[str, ...]
    proved: tuple[str, ...]

    @property
    def now(self) -> tuple[str, ...]:
        """The versions, and the options of the container."""
        return (*self.versions, " ".join(CONTAINER_OPTIONS))

    @property
    def holds(self) -> bool:
        """Tell whether nothing has changed since the proof."""
        return self.now == self.proved
