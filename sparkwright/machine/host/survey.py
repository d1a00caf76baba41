"""What the preflight judges of a Spark, and what a first look at a machine shows."""

from dataclasses import dataclass
from typing import ClassVar

from sparkwright.common.part import Part
from sparkwright.machine.host.kernel import Kernel


@dataclass(frozen=True)
class Listener:
    """A process that listens on a port of door or engine."""

    ours: bool
    port: int
    pid: int
    command: str


class Survey(Part):
    """A Spark, as found. None always means "absent".

    Attributes:
        gpu, driver: name and driver version of the GPU that CUDA takes by default.
        gpu_memory: bytes of its own memory; None on a GB10, whose memory is the host's.
        gpu_said: nvidia-smi's output instead of a GPU; "" if it showed one, or is absent.
        memory, available: MemTotal and MemAvailable in bytes.
        machine: what no other machine has.
        serves: the release that `current` names.
        root_device, docker_device: the file system that holds each of the two.
        root_free, docker_free: bytes free for root on them.
        docker: version of the Docker daemon; None if none answers.
        docker_driver: how it stores images: overlay2, or overlayfs in containerd's store.
        image: Docker's id of the engine's image.
        weights: bytes of the checkpoint folders that are already on the Spark.
    """

    part: ClassVar = "machine"
    # Docker and a disk in the network may each take 20 s to be given up.
    patience: ClassVar = 60

    arch: str
    kernel: Kernel
    os: str
    os_name: str
    gpu: str | None
    driver: str | None
    gpu_memory: int | None
    memory: int
    root_device: str
    root_free: int
    docker_device: str
    docker_free: int
    docker: str | None
    docker_driver: str | None
    systemd: str
    failed_units: tuple[str, ...]
    clock: int
    image: str | None
    weights: int
    listeners: tuple[Listener, ...] = ()
    gpu_said: str = ""
    available: int = 0
    machine: str = ""
    serves: str | None = None
