"""The status of a fleet: a table for people, JSON for machines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkwright.common.hardware import GIB
from sparkwright.common.progress import time_text
from sparkwright.insight.status.status import Reading, SparkRow, warnings

_HEADINGS = (
    *("spark", "replica", "recipe", "release", "up since", "tok/s", "requests", "KV", "drafts"),
    *("GiB", "MHz", "W", "°C", "restarts"),
)
# The columns of numbers, which are aligned on their right.
_NUMBERS = frozenset(_HEADINGS[5:])
# The columns that a narrow terminal does without, the first to go first.
_SPARED = ("°C", "W", "MHz", "drafts", "KV", "restarts", "requests", "recipe", "GiB", "replica")


def table(rows: Sequence[SparkRow], width: int | None = None) -> list[str]:
    """Return a heading and a line for each Spark, for a terminal of some width, or of any."""
    lines = [_HEADINGS, *(_cells(row) for row in rows)]
    columns = dict(zip(_HEADINGS, zip(*lines, strict=True), strict=True))
    for spared in _SPARED:
        if width is None or max(map(len, _laid_out(columns))) <= width:
            break
        del columns[spared]
    return _laid_out(columns)


def _laid_out(columns: Mapping[str, Sequence[str]]) -> list[str]:
    padded = []
    for heading, cells in columns.items():
        width = max(map(len, cells))
        align = str.rjust if heading in _NUMBERS else str.ljust
        padded.append([align(cell, width) for cell in cells])
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


def _cells(row: SparkRow) -> tuple[str, ...]:
    served = (row.spark, row.replica or "-", row.recipe or "-")
    if row.reading is None:
        return *served, "-", "slow" if row.slow else "no answer", *("-" for _ in _NUMBERS)
    own = _entry(row)
    running, waiting = own["requests_running"], own["requests_waiting"]
    clock, limit = _rounded(own["gpu_clock_mhz"]), own["gpu_clock_max_mhz"]
    used, total = (own[f"memory_{each}_bytes"] / GIB for each in ("used", "total"))
    restarts = own["restarts"]
    return (
        *served,
        _release(row.reading, row.recipe),
        _since(row, row.reading),
        _rounded(own["tokens_per_second"]),
        "-" if running is None else f"{running}+{waiting}" if waiting else f"{running}",
        _percent(own["kv_cache_usage"]),
        _percent(own["draft_acceptance"]),
        f"{used:.0f}/{total:.0f}",
        clock if limit is None else f"{clock}/{limit}",
        _rounded(own["gpu_power_w"]),
        _rounded(own["gpu_temperature_c"]),
        "-" if restarts is None else str(restarts),
    )


def _release(reading: Reading, wanted: str | None) -> str:
    """Return the release without the recipe's name; in full where it is of another recipe."""
    release = reading.release or "-"
    return release.removeprefix(f"{wanted}-") if reading.recipe == wanted else release


def _since(row: SparkRow, reading: Reading) -> str:
    if reading.since is not None:
        return time_text(reading.since, "%d %b %H:%M")
    if row.recipe is None:
        return "idle"
    words = {"activating": "starting", "inactive": "stopped", "deactivating": "stopping"}
    state = reading.unit.active if reading.unit else "not there"
    return words.get(state, state)


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def as_json(rows: Iterable[SparkRow], now: float) -> str:
    """Return the status, read at a time, as one line of JSON; null is what is unknown."""
    return json.dumps({"time": round(now, 3), "sparks": [_entry(row) for row in rows]})


def _entry(row: SparkRow) -> Mapping[str, Any]:
    reading = row.reading
    entry: dict[str, Any] = {
        "spark": row.spark,
        "replica": row.replica,
        "recipe": row.recipe,
        "rank": row.rank,
        "answers": reading is not None,
        "warnings": list(warnings(row)),
    }
    if reading is None:
        return entry
    load, gpu, unit = reading.load, reading.gpu, reading.unit
    used, total = reading.memory_total - reading.memory_available, reading.memory_total
    if gpu and gpu.memory_used is not None and gpu.memory_total is not None:
        # A graphics card has a memory of its own.
        used, total = gpu.memory_used, gpu.memory_total
    return entry | {
        "release": reading.release,
        "models": list(reading.models),
        "switches": list(reading.switches),
        "state": unit and unit.active,
        "status": unit and unit.status,
        "up_since": reading.since,
        "restarts": unit and unit.restarts,
        "tokens_per_second": load and round(load.tokens, 1),
        "prompt_tokens_per_second": load and round(load.prompt_tokens, 1),
        "requests_running": load and load.running,
        "requests_waiting": load and load.waiting,
        "requests_held": reading.held,
        "kv_cache_usage": load and load.kv_usage,
        "draft_acceptance": load and load.acceptance,
        "memory_used_bytes": used,
        "memory_total_bytes": total,
        "disk_free_bytes": reading.disk_free,
        "gpu_clock_mhz": gpu and gpu.clock,
        "gpu_clock_max_mhz": reading.clock_limit,
        "gpu_power_w": gpu and gpu.power,
        "gpu_temperature_c": gpu and gpu.temperature,
        "gpu_busy_percent": gpu and gpu.busy,
        "door": reading.door if row.rank == 0 else None,
    }
