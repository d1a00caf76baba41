"""Docker and NVIDIA's container toolkit, and the proof that a container gets the GPU."""

import os
from typing import Any

from host.state import docker, gpu
from host.state.readers import UnknownError, lines, names, once, run, text

_DAEMON_JSON = "/etc/docker/daemon.json"


def read(root: str, repository: str) -> dict[str, Any]:
    """Return the container runtime.

    Docker that runs and does not answer is unknown: without its containers, a restart would seem to
    end none.

    Args:
        repository: The address by which apt may know the toolkit's package source already.
    """
    info, running = _docker()
    return {
        "toolkit": toolkit(),
        "repository": any(repository in (text(path) or "") for path in _sources()),
        "runtimes": list(info.get("Runtimes") or ()),
        "containers": [each["Names"][0].lstrip("/") for each in running],
        "daemon_json": text(_DAEMON_JSON) or "",
        "proxies": (text(f"{root}/state/docker-proxies") or "").splitlines(),
    }


def _docker() -> tuple[dict[str, Any], list[dict[str, Any]]]:
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
    try:
        info = docker.get("/info") or {}
    except UnknownError:
        info = {}
    found = (best.get("driver"), toolkit(), info.get("ServerVersion"), os.uname().release)
    return {
        "versions": [version for version in found if version],
        "proved": (text(f"{root}/state/gpu") or "").splitlines(),
    }
