"""Variants of a Spark on its first day: what may be amiss there, or other than usual."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from tests.lab import apt, factory, network
from tests.lab.state import LabError

SUDO_PASSWORD = "spark"
_UNITS = Path(__file__).with_name("units")
# Bytes: less than any engine image needs, and enough for all that a Spark is to hold.
SMALL_DISK, OWN_DISK = 512 * 1024**2, 64 * 1024**3

# The LAN as an owner has set it in NetworkManager's window, which Ubuntu keeps in netplan's words.
_LAN_PROFILE = """\
network:
  version: 2
  ethernets:
    NM-{uuid}:
      renderer: NetworkManager
      match:
        name: "{port}"
      addresses:
      - "{address}/24"
      routes:
      - to: "default"
        via: "{host}"
      networkmanager:
        uuid: "{uuid}"
        name: "LAN"
        passthrough:
          connection.timestamp: "1795334400"
          ethernet._: ""
          ipv4.method: "manual"
          ipv6.addr-gen-mode: "default"
          ipv6.method: "disabled"
          proxy._: ""
"""
_ALL_BY_NETWORKMANAGER = """\
network:
  version: 2
  renderer: NetworkManager
"""
# NetworkManager takes no end of a pair of veth by itself, which the lab's ports are. It asks each
# port with a cable for an address, as on DGX OS, and a boot waits for that: a minute by default.
_MANAGED = """\
[main]
autoconnect-retries-default=1

[device-lab]
match-device=interface-name:en*
managed=1

[connection-lab]
ipv4.dhcp-timeout=3
ipv6.ra-timeout=3
"""

# What toolkit 1.18 and later says, where it gives the GPU by a list of devices (CDI).
_HOOK_REFUSES = (
    "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) "
    "is not supported. Please use the NVIDIA Container Runtime (e.g. specify the --runtime=nvidia "
    "flag) instead."
)
_STALE_CDI = (
    "could not apply required modification to OCI specification: error modifying OCI spec: failed "
    "to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all"
)
# What nvidia-smi says, and the runtime.
_DRIVER_UPDATED = (
    "Failed to initialize NVML: Driver/library version mismatch",
    "driver/library version mismatch",
)
_DRIVER_NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.",
    "driver not loaded",
)


def _driver(spark: Path, version: str, cuda: str) -> None:
    program = spark / "root/usr/bin/nvidia-smi"
    text = program.read_text().replace("DRIVER=580.178.04", f"DRIVER={version}")
    program.write_text(text.replace("CUDA=13.0", f"CUDA={cuda}"))


def _no_toolkit(spark: Path) -> None:
    factory.inside(spark / "root", "dpkg", "--purge", apt.PACKAGE)
    _no_runtime(spark)


def _no_runtime(spark: Path) -> None:
    _docker(spark, lambda settings: settings.pop("runtimes"))


def _containerd_store(spark: Path) -> None:
    """Have Docker keep images in containerd's store, as Docker 29 does where it is new."""
    _docker(spark, lambda settings: settings.update(features={"containerd-snapshotter": True}))


def _docker(spark: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = spark / "root/etc/docker/daemon.json"
    settings = json.loads(file.read_text())
    change(settings)
    file.write_text(json.dumps(settings, indent=4) + "\n")


def _toolkit_fails(spark: Path, said: str, name: str = "lab-fault") -> None:
    folder = spark / "root/etc/nvidia-container-runtime"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"{said}\n")


def _driver_amiss(spark: Path, by_smi: str, by_runtime: str) -> None:
    """Have nvidia-smi and the runtime fail, as both do without a driver that answers."""
    program = spark / "root/usr/bin/nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "{by_smi}"\nexit 9\n')
    _toolkit_fails(spark, f"nvidia-container-cli: initialization error: nvml error: {by_runtime}")


def _disk(spark: Path, size: int) -> None:
    """Make the file system that the supervisor then mounts for /opt and /var/lib/docker."""
    disk = spark / "disk.img"
    with disk.open("wb") as file:
        file.truncate(size)
    lazy = "lazy_itable_init=1,lazy_journal_init=1"
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-E", lazy, str(disk)], check=True)


def _unit(spark: Path, name: str) -> None:
    shutil.copy(_UNITS / name, spark / "root/etc/systemd/system")
    factory.inside(spark / "root", "systemctl", "enable", name)


def _apt_busy(spark: Path) -> None:
    """Have the toolkit missing, somebody else at apt, and a source of theirs that fails."""
    _no_toolkit(spark)
    _unit(spark, "packagekit.service")
    source = spark / "root/etc/apt/sources.list.d/theirs.list"
    source.write_text("deb [trusted=yes] http://127.0.0.2:9/ ./\n")


def _docker_busy(spark: Path) -> None:
    """Have a container of the owner's run, in a Docker that does not know the runtime yet."""
    _no_runtime(spark)
    _unit(spark, "owners-container.service")


def _sudo_password(spark: Path) -> None:
    (spark / "root/etc/sudoers.d/nvidia").unlink()
    factory.inside(spark / "root", "chpasswd", stdin=f"{factory.USER}:{SUDO_PASSWORD}")


def _network_manager(spark: Path) -> None:
    """Have NetworkManager set the network, as on DGX OS; the LAN is a profile of its own."""
    root = spark / "root"
    factory.inside(
        root, "systemctl", "disable", "systemd-networkd.service", "systemd-networkd.socket"
    )
    (root / "usr/lib/systemd/network/90-fabric.network").unlink()
    (root / "etc/NetworkManager/conf.d/lab.conf").write_text(_MANAGED)
    (root / "etc/netplan/01-lan.yaml").unlink()
    factory.write_netplan(root, "01-network-manager-all", _ALL_BY_NETWORKMANAGER)
    uuid = _uuid(f"{spark.name} lan")
    address, port = network.address(spark.name), network.LAN_PORT
    text = _LAN_PROFILE.format(uuid=uuid, port=port, address=address, host=network.HOST)
    factory.write_netplan(root, f"90-NM-{uuid}", text)


def _uuid(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, f"{name}.invalid"))


# Each gets the Spark's folder, in which its root is mounted, before the first boot.
VARIANTS: dict[str, Callable[[Path], None]] = {
    "standard": lambda spark: None,
    "no-driver": lambda spark: (spark / "root/usr/bin/nvidia-smi").unlink(),
    "driver-570": lambda spark: _driver(spark, "570.124.06", "12.8"),
    "no-toolkit": _no_toolkit,
    "hook-refuses": lambda spark: _toolkit_fails(spark, _HOOK_REFUSES, "lab-hook-fault"),
    "stale-cdi": lambda spark: _toolkit_fails(spark, _STALE_CDI),
    "driver-updated": lambda spark: _driver_amiss(spark, *_DRIVER_UPDATED),
    "driver-not-loaded": lambda spark: _driver_amiss(spark, *_DRIVER_NOT_LOADED),
    "cuda-unknown-error": lambda spark: factory.cuda(spark / "root", 999),
    "apt-busy": _apt_busy,
    "docker-busy": _docker_busy,
    "kexec-handover": lambda spark: _unit(spark, "lab-handover.service"),
    "disk-nearly-full": lambda spark: _disk(spark, SMALL_DISK),
    "own-disk": lambda spark: _disk(spark, OWN_DISK),
    "port-taken": lambda spark: _unit(spark, "other-server.service"),
    "sudo-password": _sudo_password,
    "network-manager": _network_manager,
    "containerd-store": _containerd_store,
}


def check(variant: str) -> None:
    if variant not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise LabError(f"there is no factory variant {variant}; there are: {known}")
