"""A Spark as its survey finds it, other machines, and a release that fits."""

import json
from typing import Any

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.fleet.settings import Settings
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.requirements import Requirements

NOW = 1763683200
# The part `machine` of a DGX Spark; nvidia-smi, os-release and sizes as reported for one.
SPARK: dict[str, Any] = {
    "arch": "aarch64",
    "kernel": {
        "release": "6.11.0-1016-nvidia",
        "command_line": "BOOT_IMAGE=/boot/vmlinuz-6.11.0-1016-nvidia root=UUID=1 ro quiet",
        "handover": 0,
        "pools": False,
    },
    "os": "ubuntu 24.04",
    "os_name": "Ubuntu 24.04.3 LTS",
    "gpu": "NVIDIA GB10",
    "driver": "580.126.09",
    "gpu_memory": None,
    "memory": 127601452 * 1024,
    "root_device": "/dev/nvme0n1p2",
    "root_free": 3_000_000_000_000,
    "docker_device": "/dev/nvme0n1p2",
    "docker_free": 3_000_000_000_000,
    "docker": "28.5.1",
    "docker_driver": "overlay2",
    "systemd": "running",
    "failed_units": [],
    "clock": NOW,
    "image": None,
    "weights": 0,
}
WANTED = Requirements(
    HARDWARE["gb10"], Settings(), weights=22 * GIB, image=9 * GIB, ports=(8000, 18001)
)
IMAGE = "sha256:" + "1" * 64


def survey(**changes: Any) -> Survey:
    return Survey.model_validate_json(json.dumps(SPARK | changes))


def pro(edition: str, memory: float) -> Survey:
    return machine("x86_64", f"NVIDIA RTX PRO 6000 Blackwell {edition}", 97887, memory)


def machine(arch: str, gpu: str, mib: int | None, memory: float) -> Survey:
    own = mib and mib << 20
    return survey(arch=arch, gpu=gpu, gpu_memory=own, memory=int(memory * GIB))


FIT = survey()
# As nvidia-smi prints them; MemTotal of the 64 GB Spark is inferred, by
# sparkwright/common/hardware.py.
LAPTOP = machine("x86_64", "NVIDIA GeForce RTX 5090 Laptop GPU", 24463, 62)
MACHINES = {
    "Spark of 64 GB": ("gb10-64gb", machine("aarch64", "NVIDIA GB10", None, 57.7)),
    "workstation": ("rtx-pro-6000", pro("Workstation Edition", 62)),
    "Max-Q": ("rtx-pro-6000", pro("Max-Q Workstation Edition", 125)),
    "server": ("rtx-pro-6000", pro("Server Edition", 503)),
    "5090": ("rtx-5090", machine("x86_64", "NVIDIA GeForce RTX 5090", 32607, 31)),
}
