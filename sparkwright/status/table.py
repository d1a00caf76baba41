"""The status of a fleet: a table for people, JSON for machines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparkwright.common.hardware import GIB
from sparkwright.common.progress import time_text
from sparkwright.status.status import Reading, SparkRow
from sparkwright.status.warnings import warnings

_HEADINGS = (
    *("spark", "replica", "recipe", "release", "up since", "tok/s", "requests", "KV", "drafts"),
    *("GiB", "MHz", "W", "°C", "restarts"),
)
# The columns of numbers, which are aligned on their right.
_NUMBERS = frozenset(_HEADINGS[5:])
# The columns that a narrow terminal does without, the first to go first.
_SPARED = ("°C", "W", "MHz", "drafts", "KV", "restarts", "requests", "recipe", "GiB", "replica")


def table(rows: Sequence[SparkRow], width: int | None = None) -> list[str]:
    """Return the table for people: a heading, and a line for each Spark.

    Args:
        width: Columns of the terminal; None where lines may be of any length.
    """
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
    reading = row.reading
    if reading is None:
        return *served, "-", "slow" if row.slow else "no answer", *("-" for _ in _NUMBERS)
    load, gpu, unit = reading.load, reading.gpu, reading.unit
    requests = "-"
    if load and load.running is not None:
        requests = f"{load.running}+{load.waiting}" if load.waiting else f"{load.running}"
    return (
        *served,
        _short(reading.release, reading.recipe, served[2]),
        _since(row, reading),
        _rounded(load.tokens if load else None),
        requests,
        _percent(load.kv_usage if load else None),
        _percent(load.acceptance if load else None),
        _memory(reading),
        _clock(reading),
        _rounded(gpu.power if gpu else None),
        _rounded(gpu.temperature if gpu else None),
        str(unit.restarts) if unit else "-",
    )


def _short(release: str | None, recipe: str | None, wanted: str) -> str:
    """Return a release without the recipe's name; in full where it is of another recipe."""
    if release is None:
        return "-"
    return release.removeprefix(f"{recipe}-") if recipe == wanted else release


def _since(row: SparkRow, reading: Reading) -> str:
    if reading.since is not None:
        return time_text(reading.since, "%d %b %H:%M")
    if row.recipe is None:
        return "idle"
    words = {"activating": "starting", "inactive": "stopped", "deactivating": "stopping"}
    state = reading.unit.active if reading.unit else "not there"
    return words.get(state, state)


def _memory(reading: Reading) -> str:
    used, total = _used(reading)
    return f"{used / GIB:.0f}/{total / GIB:.0f}"


def _clock(reading: Reading) -> str:
    clock = _rounded(reading.gpu.clock if reading.gpu else None)
    return clock if reading.clock_limit is None else f"{clock}/{reading.clock_limit}"


def _used(reading: Reading) -> tuple[int, int]:
    """Return used and total bytes of the engine's memory: the GPU's own, or else the host's."""
    gpu = reading.gpu
    if gpu and gpu.memory_used is not None and gpu.memory_total is not None:
        return gpu.memory_used, gpu.memory_total
    return reading.memory_total - reading.memory_available, reading.memory_total


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def as_json(rows: Iterable[SparkRow], now: float) -> str:
    """Return the status as one line of JSON; null is what is unknown, or not there.

    Args:
        now: when they were read, in seconds since the epoch.
    """
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
    used, total = _used(reading)
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
