"""Memory that kernel or driver keep from an engine: how it shows, and how to get it back."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

GIB = 1024**3

# Bytes from which a reserve for handover counts: 9.3 GiB is usual on a Spark of 128 GB, and one of
# 0.9 GiB already kept NCCL from registering its memory. A sound Spark shows none.
# (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259; NVIDIA/NV-Kernels#590, #591)
HANDOVER_LEAST = GIB // 2


def _counted(size: int) -> int:
    return size if size >= HANDOVER_LEAST else 0


@dataclass(frozen=True)
class Kernel:
    """The running kernel, and the driver in it.

    Attributes:
        release: as `uname -r` prints it.
        command_line: what it was booted with.
        handover: bytes that it keeps for kexec handover, 0 for a few; neither the GPU nor RDMA gets
            them.
        pools: the driver keeps memory that a program has freed (open modules from 590 on; by
            christopherowen/dgx-spark-memory-saver, with 610 a restart then finds too little).
    """

    release: str
    command_line: str
    handover: Annotated[int, AfterValidator(_counted)]
    pools: bool
