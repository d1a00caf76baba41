"""The switch to a release: its course, and the memory that it needs and finds."""

import json
from collections.abc import Sequence
from typing import Any

from host.state import gpu, kernel
from host.state.engines import current, engines
from host.state.readers import meminfo, run, text

# Characters of a line of the log, and lines of one reading.
_LINE, _LINES = 4000, 5000
_CURSOR = "-- cursor: "


def read(root: str, release: str, since: str = "", cursor: str | None = None) -> dict[str, Any]:
    """Return the course of a switch.

    Args:
        since: Start of the engine's log, "@" and seconds since the epoch; "" to read none.
        cursor: The place in the log after which to read on.
    """
    unit = f"switch@{release}.service"
    active = run("systemctl", "show", "--value", "--property=ActiveState", "--", unit).stdout
    report = text(f"{root}/jobs/switch@{release}.json")
    lines = _log(f"vllm@{release}.service", since, cursor) if since else []
    # journalctl adds it: what an engine writes stands before.
    last = lines.pop() if lines and lines[-1].startswith(_CURSOR) else ""
    return {
        "ended": active.strip() in ("inactive", "failed"),
        "report": json.loads(report) if report else None,
        "cursor": last.removeprefix(_CURSOR) or None,
        "lines": [line[:_LINE] for line in lines if line][-_LINES:],
    }


def _log(unit: str, since: str, cursor: str | None) -> list[str]:
    start = f"--after-cursor={cursor}" if cursor else f"--since={since}"
    words = ("journalctl", "--quiet", "--output=cat", "--show-cursor", f"--unit={unit}", start)
    return run(*words).stdout.splitlines()


def memory(root: str, release: str = "", others: Sequence[str] = ()) -> dict[str, Any]:
    """Return bytes; of an engine None where nothing says how many it takes.

    Args:
        root: The folder of the seat of `release`.
        others: The folders of the Spark's other seats.
    """
    found, best = meminfo(), gpu.read()["gpu"]
    beside = [(place, own) for place in others if (own := current(place))]
    taken = {own: _size(place, own) or 0 for place, own in beside}
    units = engines()
    runs = [own for own in taken if units.get(own, {}).get("active") == "active"]
    return {
        "total": found["MemTotal"],
        "available": found["MemAvailable"],
        "handover": kernel.read()["handover"],
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
