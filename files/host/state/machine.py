"""The machine, as the preflight judges it; its memory, its container runtime, proof of its GPU."""

import json
import os
import platform
import re
import time
from collections.abc import Sequence
from typing import Any

from host.state import docker, gpu
from host.state.engines import current, engines
from host.state.readers import (
    UnknownError,
    existing,
    lines,
    manager,
    meminfo,
    names,
    once,
    output,
    run,
    text,
    word,
)
from host.state.sockets import holders

_DAEMON_JSON = "/etc/docker/daemon.json"
# Where settings of systemd itself are.
_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
_SET = re.compile(r"^[ \t]*RuntimeWatchdogSec[ \t]*=[ \t]*\S", re.MULTILINE)
# A part of a time span, and the seconds of its units.
_SPAN = re.compile(r"(\d+)(us|ms|s|min|h|d|)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "": 1}


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
        place: The folder of the seat; "" for `root`.
    """
    system, memory = platform.freedesktop_os_release(), meminfo()
    shown = gpu.read()
    best = shown["gpu"] or {}
    # Where Docker hangs, it is asked once.
    info = _docker()
    state = manager().get("SystemState")
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
        "serves": current(place or root),
        "root_device": root_device,
        "root_free": root_free,
        "docker_device": docker_device,
        "docker_free": docker_free,
        "docker": info.get("ServerVersion"),
        "docker_driver": info.get("Driver"),
        "systemd": state or "absent",
        "failed_units": _failed_units() if state == "degraded" else [],
        "clock": int(time.time()),
        "image": docker.image_id(images if info else ()),
        "weights": _size(root, [os.path.join(root, folder) for folder in folders]),
        "listeners": _listeners(ports, docker.engine_containers() if info else ()),
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
    """Return the folder of images: Docker's or, by Docker 29's new default, containerd's."""
    if "io.containerd.snapshotter." not in str(info.get("DriverStatus")):
        return info.get("DockerRootDir") or "/var/lib/docker"
    known = text("/etc/containerd/config.toml") or ""
    found = re.search(r"^root *= *[\"'](.*)[\"']", known, re.MULTILINE)
    return (found and found[1]) or "/var/lib/containerd"


def _disks(*paths: str) -> list[tuple[str, int]]:
    """Return file system and free bytes of each path, or of its nearest parent that exists."""
    found = map(existing, paths)
    _, *rows = lines("df", "--block-size=1", "--output=source,avail", *found)
    return [(device, int(free)) for device, free in (row.rsplit(None, 1) for row in rows)]


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
    found = {(port, each["pid"]): each for port in ports for each in holders(port)}
    return [
        {
            "ours": any(mark in process["cgroup"] for mark in ours),
            "port": port,
            "pid": pid,
            "command": process["command"],
        }
        for (port, pid), process in sorted(found.items())
    ]


def memory(root: str, release: str = "", others: Sequence[str] = ()) -> dict[str, Any]:
    """Return bytes, also of other seats' engines; None where nothing says how many one takes."""
    found, best = meminfo(), gpu.read()["gpu"]
    beside = [(place, own) for place in others if (own := current(place))]
    taken = {own: _engine_size(place, own) or 0 for place, own in beside}
    units = engines()
    runs = [own for own in taken if units.get(own, {}).get("active") == "active"]
    return {
        "total": found["MemTotal"],
        "available": found["MemAvailable"],
        "handover": kernel()["handover"],
        "gpu_free": best and best["memory_free"],
        "engine": _engine_size(root, release),
        "beside": sum(taken.values()),
        "reserved": sum(size for own, size in taken.items() if own not in runs),
    }


def _engine_size(place: str, release: str) -> int | None:
    """Return the bytes of an engine that the orders of its last switch contain."""
    try:
        size = json.loads(text(f"{place}/manifests/switch@{release}.json") or "{}")["engine"]
    except (ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) and size > 0 else None


def runtime(root: str, repository: str) -> dict[str, Any]:
    """Return the container runtime, and whether apt knows the toolkit's repository by its address.

    Docker that runs and does not answer is unknown: without its containers, a restart would seem to
    end none.
    """
    info, running = _docker_at_work()
    return {
        "toolkit": toolkit(),
        "repository": any(repository in (text(path) or "") for path in _sources()),
        "runtimes": list(info.get("Runtimes") or ()),
        "containers": [each["Names"][0].lstrip("/") for each in running],
        "daemon_json": text(_DAEMON_JSON) or "",
        "proxies": (text(f"{root}/state/docker-proxies") or "").splitlines(),
    }


def _docker_at_work() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        return docker.get("/info") or {}, docker.get("/containers/json") or []
    except UnknownError:
        if run("systemctl", "is-active", "--quiet", "docker.service").returncode == 0:
            raise UnknownError("Docker runs, but does not answer: journalctl -u docker") from None
        return {}, []


@once
def toolkit() -> str | None:
    """Return what the toolkit says of its version; None where it is not installed."""
    return next(iter(lines("nvidia-ctk", "--version")), None)


def _sources() -> list[str]:
    folder = "/etc/apt/sources.list.d"
    return ["/etc/apt/sources.list", *(f"{folder}/{name}" for name in names(folder))]


def gpu_proof(root: str) -> dict[str, Any]:
    """Return driver, toolkit, Docker and kernel now, and what was written when it was proved."""
    best = gpu.read()["gpu"] or {}
    found = (best.get("driver"), toolkit(), _docker().get("ServerVersion"), os.uname().release)
    return {
        "versions": [version for version in found if version],
        "proved": (text(f"{root}/state/gpu") or "").splitlines(),
    }


def watchdog(ours: str) -> dict[str, Any]:
    """Return the watchdog; `ours` is the file that sets it for us."""
    # The kernel makes them by the firmware's tables, with or without a driver.
    devices = names("/sys/bus/platform/devices")
    arms = any(name.startswith("sbsa-gwdt") for name in devices)
    return {
        "device": os.path.exists("/dev/watchdog0"),
        "offered": arms and bool(output("modinfo", "--field=filename", "sbsa_gwdt")),
        "set_by": _set_by(ours),
        "seconds": _seconds(),
    }


def _set_by(ours: str) -> str:
    if "systemd.watchdog_sec=" in word("/proc/cmdline"):
        return "the kernel's command line"
    folders = [f"{folder}/systemd/system.conf.d" for folder in _FOLDERS]
    files = [f"{folder}/{name}" for folder in folders for name in names(folder)]
    others = (path for path in files if path.endswith(".conf") and path != ours)
    paths = ("/etc/systemd/system.conf", *others)
    return next((path for path in paths if _SET.search(text(path) or "")), "")


def _seconds() -> int | None:
    """Return systemd's time, which it writes as in "1min 30s", or "0"."""
    words = manager().get("RuntimeWatchdogUSec", "").split()
    found = [_SPAN.fullmatch(word) for word in words]
    if not found or not all(found):
        return None
    return int(sum(int(each[1]) * _UNITS[each[2]] for each in found if each))
