"""The status of a fleet: each Spark's, warnings, a table for people, and JSON for machines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparkwright.common.command_line import next_line
from sparkwright.common.hardware import GIB
from sparkwright.common.progress import time_text
from sparkwright.insight.status.state import PATIENCE, Reading, SparkRow
from sparkwright.plan.causes.thresholds import DISK_FULL, EARLYOOM, KV_FULL, MEMORY_LOW

_HEADINGS = (
    *("spark", "replica", "recipe", "release", "up since", "tok/s", "requests", "KV", "drafts"),
    *("GiB", "MHz", "W", "°C", "restarts", "standby"),
)
# The columns of numbers, which are aligned on their right.
_NUMBERS = frozenset(_HEADINGS[5:])
# The columns that a narrow terminal does without, the first to go first.
_SPARED = (
    *("°C", "W", "MHz", "drafts", "KV", "standby", "restarts", "requests", "recipe", "GiB"),
    "replica",
)


def warnings(row: SparkRow) -> Iterator[str]:
    """Yield what an owner should look at, a sentence each."""
    reading = row.reading
    if row.slow:
        yield f"it took the login, but gave no answer within {PATIENCE} s"
        return
    if reading is None:
        yield row.silent
        return
    if reading.down:
        yield f"{reading.down.said}; {next_line('doctor')} shows its last seconds"
    yield from _of_release(row, reading)
    yield from _of_engine(row, reading)
    if reading.gpu and (slow := reading.gpu.held_back):
        yield f"the GPU is held back: {slow}; {next_line('doctor')} tells what to do"
    if 100 * reading.memory_available < MEMORY_LOW * reading.memory_total:
        left = f"{reading.memory_available / GIB:.1f} GiB"
        yield f"{left} of memory are left; earlyoom ends the engine at {EARLYOOM} %"
    if reading.disk_free < DISK_FULL:
        free = f"{reading.disk_free / GIB:.1f} GiB"
        yield f"{free} are free on the disk; {next_line('clean')} makes room"


def _of_release(row: SparkRow, reading: Reading) -> Iterator[str]:
    wanted = row.recipe
    for release in reading.switches:
        yield f"a switch to {release} is under way"
    if reading.release is None:
        if wanted and not reading.switches:
            yield f"{wanted} was not set up yet; {next_line('apply')} does it"
        return
    runs = reading.unit is not None and not reading.unit.ended
    if wanted and reading.recipe != wanted:
        current = reading.recipe or reading.release
        yield (
            f"{current} is set up; the inventory asks for {wanted}; {next_line('apply')} switches "
            "to it"
        )
    elif not wanted and runs:
        yield f"{reading.release} runs, but the inventory assigns no replica to this Spark"


def _of_engine(row: SparkRow, reading: Reading) -> Iterator[str]:
    for release in reading.others:
        if not reading.switches:
            yield f"vllm@{release} runs as well"
    unit, load = reading.unit, reading.load
    if row.recipe is None or reading.release is None:
        return
    if reading.turn and reading.turn.why:
        yield f"requests are refused: {reading.turn.why}"
    elif row.on_demand and not reading.turn:
        yield "no request can start it; systemctl status turns tells why"
    waits = row.on_demand and not row.offer and (unit is None or unit.active != "failed")
    if not waits and (unit is None or unit.active != "active"):
        status = f" ({unit.status})" if unit and unit.status else ""
        yield f"the engine is {unit.active if unit else 'not there'}{status}"
        yield from filter(None, (row.offer,))
    elif row.rank == 0 and load is None and unit and unit.active == "active":
        yield "the engine does not answer /metrics"
    if unit and unit.restarts:
        yield f"the engine was started again {unit.restarts} times; {next_line('doctor')} tells why"
    if row.rank == 0 and reading.door != "active":
        yield f"the door is {reading.door}: clients get no answer; systemctl status {row.door}"
    if reading.held and not row.on_demand:
        yield f"the door holds {reading.held} requests until an engine serves"
    if load and load.kv_usage and load.kv_usage > KV_FULL and load.waiting:
        yield f"the KV cache is full, and {load.waiting} requests wait"


def turns(row: SparkRow) -> str:
    """Return how it goes with a replica that requests start, in a line; "" of any other."""
    reading, turn = row.reading, row.reading and row.reading.turn
    if not (turn and reading and row.on_demand):
        return ""
    last = [f" (the last one {time_text(each.at, '%d %b %H:%M')})" for each in reading.starts[-1:]]
    served = f"{turn.starts} starts{''.join(last)} and {turn.hits} requests so far"
    return f"{turn.phase}, {turn.waiting} wait; {served}; a start takes {turn.seconds} s"


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
        "waits" if own["standby"] else "-",
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
    if row.on_demand and state in ("inactive", "not there"):
        return "on demand"
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
        "last_served": reading.last,
        "models": list(reading.models),
        "switches": list(reading.switches),
        "state": unit and unit.active,
        "status": unit and unit.status,
        "up_since": reading.since,
        "restarts": unit and unit.restarts,
        "standby": reading.standby,
        "on_demand": row.on_demand,
        "turn": reading.turn and reading.turn.model_dump(),
        "starts": [each.model_dump() for each in reading.starts],
        "hard_down": reading.down and reading.down.model_dump(include={"at", "back", "cause"}),
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
