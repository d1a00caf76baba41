"""The hardware classes, and what each requires."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

GIB = 1024**3
_CONNECTX = (("enp1s0f0np0", "enP2p1s0f0np0"), ("enp1s0f1np1", "enP2p1s0f1np1"))
_DGX_OS = "Update DGX OS (DGX Dashboard, Update)"
_UBUNTU = "Update driver and Docker (NVIDIA's and Docker's packages for Ubuntu)"


@dataclass(frozen=True)
class Hardware:
    """The requirements of a hardware class.

    Attributes:
        name: The name that inventory and recipes use.
        arch: Machine name as ``uname -m`` prints it; None = any.
        gpu: Beginning of the GPU's name, as ``nvidia-smi --query-gpu=name`` prints it.
        unified: Whether the engine uses the host's memory; else the GPU has its own.
        memory_gib: The least GiB of that memory (MemTotal, or nvidia-smi's ``memory.total``);
            0 = any.
        total_gib: GiB of that memory as CUDA counts it, of which vLLM's
            ``gpu-memory-utilization`` is a share; 0 = whatever there is.
        update: How to update driver and Docker.
        fabric_ports: For each ConnectX port its two network interfaces, the "twins": two PCIe
            paths to the same socket. Empty: it cannot be in a group.
        fabric_speed: Speed of a twin in Mb/s with the right cable.
    """

    name: str
    arch: str | None
    gpu: str
    unified: bool
    memory_gib: int
    total_gib: float
    update: str = _DGX_OS
    fabric_ports: tuple[tuple[str, str], ...] = _CONNECTX
    fabric_speed: int = 200_000


_card = partial(
    Hardware, arch="x86_64", unified=False, update=_UBUNTU, fabric_ports=(), fabric_speed=0
)
_ALL = (
    # A 128 GB Spark shows a MemTotal of 127,601,452 KiB = 121.7 GiB, and CUDA the same (NVIDIA's
    # playbook-vllm at 09e077d; field reports). One of 64 GB must not pass.
    Hardware("gb10", "aarch64", "NVIDIA GB10", unified=True, memory_gib=112, total_gib=121.7),
    # Sold since October 2026 with the same chip and ConnectX. Its MemTotal is not published; 57.7
    # is inferred as 64 less the 6.3 GiB that the larger one reserves. News of its launch mention
    # about 8 GB, so 52 leaves room for an error.
    Hardware("gb10-64gb", "aarch64", "NVIDIA GB10", unified=True, memory_gib=52, total_gib=57.7),
    # 96 GB. nvidia-smi shows 97,887 MiB = 95.6 GiB on workstation, Max-Q and server editions,
    # PyTorch 94.97 GiB, by logs that their owners published. ig1 filled 53,240 MiB of one.
    # The 6000D, of 84 GB, has another name.
    _card("rtx-pro-6000", gpu="NVIDIA RTX PRO 6000 Blackwell", memory_gib=94, total_gib=94.97),
    # 32 GB. nvidia-smi shows 32,607 MiB = 31.8 GiB, PyTorch 31.34 to 31.39 GiB, by published logs.
    # That of a laptop begins with the same name, and has 24,463 MiB = 23.9 GiB.
    _card("rtx-5090", gpu="NVIDIA GeForce RTX 5090", memory_gib=31, total_gib=31.36),
    # A virtual Spark shows a GB10, but has the processor and memory of the machine it runs on, and
    # virtual Ethernet, which always reports 10 Gb/s.
    Hardware("lab", None, "NVIDIA GB10", True, memory_gib=0, total_gib=0, fabric_speed=10_000),
)
HARDWARE = {hardware.name: hardware for hardware in _ALL}
