"""The present status of a replica on a Spark; it needs no rights, and takes 1 to 2 s."""

import json
import os
import re
import time
from typing import Any

from host.common.seat import seat_of
from host.state import gpu
from host.state.engines import current, engines, owner, switches
from host.state.readers import meminfo, run, text, word
from host.state.vllm_metrics import load

# Seconds for which the figures of the door count.
_FRESH = 60


def read(root: str, door: str = "door.service") -> dict[str, Any]:
    """Return the status.

    Args:
        root: The folder of the seat.
        door: The unit of its door.
    """
    release, units, is_own = current(root), engines(), owner(root)

    def runs(engine: dict[str, Any]) -> bool:
        return engine["starting"] or engine["active"] not in ("inactive", "failed")

    unit = units.get(release or "")
    memory = meminfo()
    return {
        "release": release,
        **_contents(root),
        "unit": unit,
        "others": sorted(
            name for name, each in units.items() if name != release and is_own(name) and runs(each)
        ),
        "switches": [*filter(is_own, switches())],
        "load": load(root, release) if release and unit and unit["active"] == "active" else None,
        "gpu": gpu.read()["gpu"],
        "clock_limit": _number(word(f"{root}/state/gpu-clock")),
        "memory_total": memory["MemTotal"],
        "memory_available": memory["MemAvailable"],
        "disk_free": _free(root),
        "door": run("systemctl", "is-active", door).stdout.strip() or "unknown",
        "held": _held(root),
    }


def _contents(root: str) -> dict[str, Any]:
    """Return the recipe of the release that is to serve, and the names by which it is asked for."""
    try:
        content = json.loads(text(f"{root}/current/release.json") or "")
        return {"recipe": str(content["recipe"]), "models": content.get("served_names", [])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"recipe": None, "models": []}


def _number(digits: str) -> int | None:
    return int(digits) if digits.isdecimal() else None


def _free(folder: str) -> int:
    """Return the bytes that are free where a folder is, or is to be."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _held(root: str) -> int | None:
    """Return how many requests wait at the door; None if unknown. The door itself tells only root.

    A timer writes the file four times a minute.
    """
    path, seat = f"{root}/metrics/spark.prom", seat_of(root)
    labels = 'spark="[^"]*"' + (f',seat="{seat}"' if seat else "")
    sample = rf"^spark_door_requests_waiting{{{labels}}} (\d+)$"
    try:
        if time.time() - os.stat(path).st_mtime > _FRESH:
            return None
        found = re.search(sample, text(path) or "", re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
