"""What the preflight judges: the machine, its system, its GPU, Docker, disks and ports."""

import os
import platform
import re
import time
from collections.abc import Sequence
from typing import Any

from host.state import docker, gpu
from host.state.containers import image_id, running
from host.state.readers import UnknownError, lines, meminfo, run, text, word
from host.state.sockets import listening


def read(
    root: str,
    ports: Sequence[int] = (),
    images: Sequence[str] = (),
    folders: Sequence[str] = (),
    place: str = "",
) -> dict[str, Any]:
    """Return the Spark as it is; None for what is absent.

    Args:
        ports: On which door and engine will listen.
        images: Names and digests of the engine's image.
        folders: Checkpoint folders under `root`, or anywhere, whose present size counts as fetched.
        place: The folder of the seat that is asked about; "" for `root`.
    """
    system, memory = platform.freedesktop_os_release(), meminfo()
    shown = gpu.read()
    best = shown["gpu"] or {}
    # Where Docker hangs, it is asked once.
    info = _docker()
    state = run("systemctl", "is-system-running").stdout.strip()
    (root_device, root_free), (docker_device, docker_free) = _disks(root, _images(info))
    return {
        "arch": os.uname().machine,
        "kernel": kernel(),
        "os": f"{system['ID']} {system.get('VERSION_ID', '')}".strip(),
        "os_name": system["PRETTY_NAME"],
        "gpu": best.get("name"),
        "driver": best.get("driver"),
        "gpu_memory": best.get("memory_total"),
        "gpu_said": shown["said"],
        "memory": memory["MemTotal"],
        "available": memory["MemAvailable"],
        # Copies of a disk share the first, virtual machines that share a kernel the second.
        "machine": f"{word('/etc/machine-id')} {word('/proc/sys/kernel/random/boot_id')}".strip(),
        "serves": _target(f"{place or root}/current"),
        "root_device": root_device,
        "root_free": root_free,
        "docker_device": docker_device,
        "docker_free": docker_free,
        "docker": info.get("ServerVersion"),
        "docker_driver": info.get("Driver"),
        "systemd": state or "absent",
        "failed_units": _failed_units() if state == "degraded" else [],
        "clock": int(time.time()),
        "image": image_id(images if info else ()),
        "weights": _size(root, [os.path.join(root, folder) for folder in folders]),
        "listeners": _listeners(ports, running() if info else ()),
    }


def kernel() -> dict[str, Any]:
    """Return the kernel: its release, what it was booted with, and what it keeps for itself."""
    memory = meminfo()
    parameters = (text("/proc/driver/nvidia/params") or "").splitlines()
    pools = next((row for row in parameters if row.startswith("EnableSystemMemoryPools:")), "")
    return {
        "release": os.uname().release,
        "command_line": word("/proc/cmdline"),
        # The reserve for kexec handover (KHO) lies in no area that CmaTotal counts, and its free
        # pages are in CmaFree (NVIDIA/NV-Kernels#590).
        "handover": max(0, memory.get("CmaFree", 0) - memory.get("CmaTotal", 0)),
        "pools": pools.partition(":")[2].strip() not in ("", "0"),
    }


def _docker() -> dict[str, Any]:
    try:
        return docker.get("/info") or {}
    except UnknownError:
        return {}


def _images(info: dict[str, Any]) -> str:
    """Return the folder of images: Docker's or, with containerd's image store, containerd's.

    That store is the default of new installations since Docker 29.
    """
    if "io.containerd.snapshotter." not in str(info.get("DriverStatus")):
        return info.get("DockerRootDir") or "/var/lib/docker"
    known = text("/etc/containerd/config.toml") or ""
    found = re.search(r"^root *= *[\"'](.*)[\"']", known, re.MULTILINE)
    return (found and found[1]) or "/var/lib/containerd"


def _disks(*paths: str) -> list[tuple[str, int]]:
    """Return file system and free bytes of each path, or of its nearest parent that exists."""
    found = map(_existing, paths)
    _, *rows = lines("df", "--block-size=1", "--output=source,avail", *found)
    return [(device, int(free)) for device, free in (row.rsplit(None, 1) for row in rows)]


def _existing(path: str) -> str:
    return path if os.path.exists(path) else _existing(os.path.dirname(path))


def _target(link: str) -> str | None:
    return os.path.basename(os.readlink(link)) if os.path.islink(link) else None


def _failed_units() -> list[str]:
    return [row.split()[0] for row in lines("systemctl", "--failed", "--plain", "--no-legend")]


def _size(root: str, paths: list[str]) -> int:
    """Return the bytes of the files that need not be fetched; a file may be in two folders.

    Outside of the root folder, files that are root's alone can be linked; others are copied.
    """
    which = ("(", "-path", f"{root}/*", "-o", "-uid", "0", "!", "-perm", "/022", ")")
    words = ("find", *paths, "-type", "f", *which, "-printf", r"%D:%i %s\n")
    try:
        found = run(*words).stdout if paths else ""
    except UnknownError:
        # A disk in the network hangs.
        return 0
    return sum(map(int, dict(line.split() for line in found.splitlines()).values()))


def _listeners(ports: Sequence[int], containers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return who listens on ports; with host networking a cgroup names our door or a container."""
    ours = ("/door.service", "/door@", *(each["Id"] for each in containers))
    found = {
        (each["port"], process["pid"]): process
        for each in listening()
        if each["kind"] == "tcp" and each["port"] in ports
        for process in each["processes"]
    }
    return [
        {
            "ours": any(mark in process["cgroup"] for mark in ours),
            "port": port,
            "pid": pid,
            "command": process["command"],
        }
        for (port, pid), process in sorted(found.items())
    ]
