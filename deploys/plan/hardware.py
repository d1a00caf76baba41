"""Hardware classes: the only place that knows what a GB10 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """What a host of this class must be.

    Attributes:
        name: The name that inventory and recipes use.
        arch: Machine name as ``uname -m`` prints it; None = any.
        gpu: GPU name as ``nvidia-smi --query-gpu=name`` prints it.
        memory_gib: Least MemTotal in GiB; 0 = not looked at.
        fabric_ports: For each ConnectX port its two network interfaces, the "twins": a second
            PCIe path to the same socket, not a second cable.
        fabric_speed: Speed of a twin in Mb/s with the right cable.
    """

    name: str
    arch: str | None
    gpu: str
    memory_gib: int
    fabric_ports: tuple[tuple[str, str], ...]
    fabric_speed: int


_CONNECTX = (("enp1s0f0np0", "enP2p1s0f0np0"), ("enp1s0f1np1", "enP2p1s0f1np1"))

# gb10: a 128 GB Spark shows a MemTotal of 127,601,452 KiB = 121.7 GiB; one of 64 GB must not pass.
# lab: a virtual Spark shows a GB10, but has the processor and memory of the machine it runs on,
# and virtual Ethernet, which says 10 Gb/s whatever it carries.
HARDWARE = {
    "gb10": Hardware(
        "gb10",
        arch="aarch64",
        gpu="NVIDIA GB10",
        memory_gib=112,
        fabric_ports=_CONNECTX,
        fabric_speed=200_000,
    ),
    "lab": Hardware(
        "lab",
        arch=None,
        gpu="NVIDIA GB10",
        memory_gib=0,
        fabric_ports=_CONNECTX,
        fabric_speed=10_000,
    ),
}
