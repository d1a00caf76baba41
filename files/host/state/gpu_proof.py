"""The proof that a container gets the GPU, beside the present versions."""

import os
from typing import Any

from host.state import docker, gpu
from host.state.readers import UnknownError, text
from host.state.runtime import toolkit


def read(root: str) -> dict[str, Any]:
    """Return driver, toolkit, Docker and kernel now, and what was written when it was proved."""
    best = gpu.read()["gpu"] or {}
    found = (best.get("driver"), toolkit(), _docker(), os.uname().release)
    return {
        "versions": [version for version in found if version],
        "proved": (text(f"{root}/state/gpu") or "").splitlines(),
    }


def _docker() -> str | None:
    try:
        found: str | None = (docker.get("/info") or {}).get("ServerVersion")
    except UnknownError:
        return None
    return found
