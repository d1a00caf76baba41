"""What the preflight judges of a Spark, and what a first look at a machine shows."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from sparkwright.common.hardware import GIB
from sparkwright.common.part import Part

# Bytes from which a reserve for handover counts: 9.3 GiB is usual on a Spark of 128 GB, and one of
# 0.9 GiB already kept NCCL from registering its memory. A sound Spark shows none.
# (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259; NVIDIA/NV-Kernels#590, #591)
HANDOVER_LEAST = GIB // 2
# Bytes that a kernel keeps for kexec handover, 0 for a few: neither the GPU nor RDMA gets them.
Handover = Annotated[int, AfterValidator(lambda size: size if size >= HANDOVER_LEAST else 0)]


@dataclass(frozen=True)
class Kernel:
    """The running kernel, and the driver in it.

    Attributes:
        pools: the driver keeps memory that a program has freed (open modules from 590 on; by
            christopherowen/dgx-spark-memory-saver, with 610 a restart then finds too little).
    """

    release: str
    command_line: str
    handover: Handover
    pools: bool


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
        root_device, docker_device: the file system that holds each of the two.
        root_free, docker_free: bytes free for root on them.
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
