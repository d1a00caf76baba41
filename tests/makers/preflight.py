"""A Spark as its survey finds it, other machines, and a release that fits."""

from dataclasses import replace

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.machine.host.survey import Survey, parse_survey
from sparkwright.machine.preflight.preflight import Requirements

# What the script prints on a DGX Spark; nvidia-smi, os-release and sizes as reported for one.
SPARK = """\
@@arch
aarch64
@@kernel
release 6.11.0-1016-nvidia
line BOOT_IMAGE=/boot/vmlinuz-6.11.0-1016-nvidia root=UUID=1 ro quiet
handover 0
pools
@@os
ubuntu 24.04
Ubuntu 24.04.3 LTS
@@gpu
NVIDIA GB10, 580.126.09, [N/A]
@@memory
127601452
@@disk
/dev/nvme0n1p2   3000000000000
/dev/nvme0n1p2   3000000000000
@@docker
28.5.1
overlay2
@@systemd
running
@@clock
1763683200
@@image
@@weights
0
@@ports
"""
NOW = 1763683200
WANTED = Requirements(
    hardware=HARDWARE["gb10"],
    driver_minimum=580,
    docker_minimum=25,
    weights=22 * GIB,
    image=9 * GIB,
    disk_headroom=20 * GIB,
    ports=(8000, 18001),
    clock_tolerance=60,
)
FIT = parse_survey(SPARK.splitlines())
IMAGE = "sha256:" + "1" * 64


def machine(arch: str, smi: str, memory: float) -> Survey:
    """A machine with so many GiB, whose nvidia-smi says so of its GPUs."""
    text = SPARK.replace("aarch64", arch).replace("NVIDIA GB10, 580.126.09, [N/A]", smi)
    return replace(parse_survey(text.splitlines()), memory=int(memory * GIB))


# As nvidia-smi prints them; MemTotal of the 64 GB Spark is inferred, by
# sparkwright/common/hardware.py.
PRO = "NVIDIA RTX PRO 6000 Blackwell {}, 580.126.09, 97887"
LAPTOP = "NVIDIA GeForce RTX 5090 Laptop GPU, 580.126.09, 24463"
MACHINES = {
    "Spark of 64 GB": ("gb10-64gb", machine("aarch64", "NVIDIA GB10, 580.126.09, [N/A]", 57.7)),
    "workstation": ("rtx-pro-6000", machine("x86_64", PRO.format("Workstation Edition"), 62)),
    "Max-Q": ("rtx-pro-6000", machine("x86_64", PRO.format("Max-Q Workstation Edition"), 125)),
    "server": ("rtx-pro-6000", machine("x86_64", PRO.format("Server Edition"), 503)),
    "5090": ("rtx-5090", machine("x86_64", "NVIDIA GeForce RTX 5090, 580.126.09, 32607", 31)),
}
