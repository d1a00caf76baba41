"""The memory of a Spark now, and what engines take by the orders of their switches."""

import json
from collections.abc import Sequence
from typing import Any

from host.state import gpu
from host.state.engines import current, engines
from host.state.readers import meminfo, text


def read(root: str, release: str = "", others: Sequence[str] = ()) -> dict[str, Any]:
    """Return bytes; of an engine None where nothing says how many it takes.

    Args:
        root: The folder of the seat of `release`.
        others: The folders of the Spark's other seats.
    """
    memory, best = meminfo(), gpu.read()["gpu"]
    beside = [(place, own) for place in others if (own := current(place))]
    taken = {own: _size(place, own) or 0 for place, own in beside}
    units = engines()
    runs = [own for own in taken if units.get(own, {}).get("active") == "active"]
    return {
        "total": memory["MemTotal"],
        "available": memory["MemAvailable"],
        # It lies in no area that CmaTotal counts, and its free pages are in CmaFree
        # (NVIDIA/NV-Kernels#590; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259).
        "handover": max(0, memory.get("CmaFree", 0) - memory.get("CmaTotal", 0)),
        "gpu_free": best and best["memory_free"],
        "engine": _size(root, release),
        "beside": sum(taken.values()),
        "reserved": sum(size for own, size in taken.items() if own not in runs),
    }


def _size(place: str, release: str) -> int | None:
    """Return the bytes of an engine that the orders of its last switch contain."""
    try:
        size = json.loads(text(f"{place}/manifests/switch@{release}.json") or "{}")["engine"]
    except (ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) and size > 0 else None
