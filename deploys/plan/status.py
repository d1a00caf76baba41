"""What a fleet does right now: one reading of each Spark, and the table of them all."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deploys.plan.command import LOOPBACK
from deploys.plan.door import UNIT as DOOR
from deploys.plan.engine import EngineUnit, parse_engines, state_script
from deploys.plan.errors import PlanError
from deploys.plan.release import engine_port
from deploys.plan.sections import MARK, sections

_GIB = 1024**3
# Seconds between two refreshes; an engine's counters move with each step, a table cannot be read
# faster.
_WATCH = range(1, 3601)
# As the doctor has it (plan/host_ailments.py): a GPU that is held back under load, and a full disk.
_SLOW_MHZ, _SLOW_WATTS, _BUSY = 850, 35, 80
_DISK = 2 * _GIB
# Twice the share of the memory at which earlyoom ends the engine (group_data/all.py).
_MEMORY = 0.04
# Above this the KV cache has no room for another request.
_KV_FULL = 0.95

# vLLM's names: facts of 0.20 to 0.33. With data parallelism there is a line for each engine.
_METRICS = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"),
    *("prompt_tokens_total", "generation_tokens_total"),
    *("spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"),
)
_SAMPLE = re.compile(r"^vllm:(?P<name>\w+)(?:\{.*\})? (?P<value>\S+)$")
_GPU = "clocks.sm,power.draw,temperature.gpu,utilization.gpu,memory.used,memory.total"


@dataclass(frozen=True)
class Load:
    """What an engine does, by two readings of its counters.

    Attributes:
        tokens: generated in a second, by all requests together.
        prompt_tokens: read in a second, those from the prefix cache too.
        running, waiting: requests.
        kv_usage: share of the KV cache that is in use, 0 to 1.
        acceptance: share of the drafted tokens that were taken, since the engine's start; None
            without drafts.
    """

    tokens: float
    prompt_tokens: float
    running: int
    waiting: int
    kv_usage: float
    acceptance: float | None


@dataclass(frozen=True)
class Gpu:
    """What nvidia-smi tells: MHz, W, °C, per cent, bytes; None for what it does not."""

    clock: float | None
    power: float | None
    temperature: float | None
    busy: float | None
    memory_used: int | None
    memory_total: int | None


@dataclass(frozen=True)
class Reading:
    """One Spark, as it is.

    Attributes:
        release, recipe: what should serve, by its `current` link; None where nothing was set up.
        unit: the engine of that release; None where systemd knows none.
        others: releases beside it that run or start.
        switches: releases to which a switch is under way.
        since: when the engine began to serve, in seconds since the epoch; None while it does not.
        load: None where no engine answers, as on the worker of a pair.
        memory_total, memory_available: of the host, in bytes.
        disk_free: bytes free for root where the root folder is.
        door: the state of its unit, as systemd names it.
    """

    release: str | None
    recipe: str | None
    unit: EngineUnit | None
    others: tuple[str, ...]
    switches: tuple[str, ...]
    since: int | None
    load: Load | None
    gpu: Gpu | None
    memory_total: int
    memory_available: int
    disk_free: int
    door: str


@dataclass(frozen=True)
class Row:
    """A Spark of the inventory.

    Attributes:
        replica, recipe, rank: what the inventory has it serve, by names; None for an idle one.
        reading: None where there was no answer.
    """

    spark: str
    replica: str | None
    recipe: str | None
    rank: int | None
    reading: Reading | None


def status_script(root: str) -> str:
    """Return the POSIX shell script that reads a Spark; it needs no rights, and takes 1 to 2 s.

    Args:
        root: the folder of everything on the Spark.
    """
    folder = shlex.quote(root)
    names = "|".join(_METRICS)
    parts = {
        "release": f"cat {folder}/current/release.json",
        "since": "systemctl show --value --timestamp=unix --property=ActiveEnterTimestamp $unit",
        "first": "metrics",
        "gpu": f"nvidia-smi --query-gpu={_GPU} --format=csv,noheader,nounits",
        "second": '[ -n "$port" ] && systemctl is-active --quiet $unit && sleep 1 && metrics',
        "memory": "awk '/^(MemTotal|MemAvailable):/ {print $2}' /proc/meminfo",
        "disk": f"folder={folder}; while [ ! -e $folder ]; do folder=$(dirname $folder); done; "
        "df --block-size=1 --output=avail $folder | tail -n 1",
        "door unit": f"systemctl is-active {DOOR}",
    }
    lines = [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]
    prelude = f"""\
release=$(basename "$(readlink {folder}/current)" 2>/dev/null)
unit=vllm@${{release:-none}}.service
port=$({engine_port(root)})
metrics() {{
  [ -n "$port" ] || return
  date +%s.%N
  curl --silent --max-time 5 http://{LOOPBACK}:$port/metrics | grep -E '^vllm:({names})[{{ ]'
}}"""
    return "\n".join([prelude, state_script(root), *lines, "true"])


def parse_status(output: Iterable[str]) -> Reading:
    """Return the reading that the script's output lines describe.

    Raises:
        ValueError: a section that every Linux host has is missing or malformed.
    """
    lines = list(output)
    found = sections(lines)
    try:
        state = parse_engines(lines)
        unit = state.units.get(state.current or "")
        total, available = (int(kib) * 1024 for kib in found["memory"])
        since = "".join(found["since"]).removeprefix("@")
        active = unit is not None and unit.active == "active"
        return Reading(
            release=state.current,
            recipe=_recipe("\n".join(found["release"])),
            unit=unit,
            others=tuple(
                sorted(
                    each.release
                    for each in state.units.values()
                    if each.release != state.current and not each.ended
                )
            ),
            switches=state.switches,
            since=int(since) if active and since.isdigit() else None,
            load=_load(found["first"], found["second"]),
            gpu=_gpu(found["gpu"]),
            memory_total=total,
            memory_available=available,
            disk_free=int(found["disk"][0]),
            door="".join(found["door unit"]) or "unknown",
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"the reading of the host is incomplete: {error!r}") from error


def _recipe(text: str) -> str | None:
    try:
        return str(json.loads(text)["recipe"])
    except (ValueError, KeyError, TypeError):
        return None


def _load(first: Sequence[str], second: Sequence[str]) -> Load | None:
    """Return what happened between two readings, each with its time first; None without them."""
    if len(first) < 2 or len(second) < 2:
        return None
    before, after = _counters(first[1:]), _counters(second[1:])
    seconds = float(second[0]) - float(first[0])

    def rate(name: str) -> float:
        # An engine that was started in between counts from nothing.
        return max(0.0, after.get(name, 0.0) - before.get(name, 0.0)) / seconds

    drafted = after.get("spec_decode_num_draft_tokens_total")
    accepted = after.get("spec_decode_num_accepted_tokens_total", 0.0)
    return Load(
        tokens=rate("generation_tokens_total"),
        prompt_tokens=rate("prompt_tokens_total"),
        running=round(after["num_requests_running"]),
        waiting=round(after["num_requests_waiting"]),
        kv_usage=after["kv_cache_usage_perc"],
        acceptance=accepted / drafted if drafted else None,
    )


def _counters(lines: Iterable[str]) -> dict[str, float]:
    """Return each metric's sum over the engines; of shares the largest."""
    found: dict[str, float] = {}
    for sample in filter(None, map(_SAMPLE.match, lines)):
        name, value = sample["name"], float(sample["value"])
        old = found.get(name, 0.0)
        found[name] = max(old, value) if name.endswith("_perc") else old + value
    return found


def _gpu(lines: Sequence[str]) -> Gpu | None:
    """Return the GPU with the most memory: CUDA takes the fastest by itself."""
    # Without a driver nvidia-smi says so in a sentence on standard output.
    gpus = [
        Gpu(clock, power, temperature, busy, _bytes(used), _bytes(total))
        for line in lines
        if line.count(",") == _GPU.count(",")
        for clock, power, temperature, busy, used, total in [map(_number, line.split(","))]
    ]
    return max(gpus, key=lambda gpu: gpu.memory_total or 0) if gpus else None


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib) * 1024**2


def warnings(row: Row) -> Iterator[str]:
    """Yield what somebody should look at, a sentence each."""
    reading = row.reading
    if reading is None:
        yield "no answer: is it on, and does ssh get to it?"
        return
    yield from _of_release(row, reading)
    yield from _of_engine(row, reading)
    gpu = reading.gpu
    if gpu and gpu.clock is not None and gpu.power is not None and gpu.busy is not None:
        slow = gpu.clock <= _SLOW_MHZ and gpu.power <= _SLOW_WATTS and gpu.busy >= _BUSY
        if slow:
            yield (
                f"the GPU is held back: {gpu.clock:.0f} MHz and {gpu.power:.0f} W while "
                f"{gpu.busy:.0f} % busy; deploys/doctor.py tells what to do"
            )
    if reading.memory_available < _MEMORY * reading.memory_total:
        left = f"{reading.memory_available / _GIB:.1f} GiB"
        yield f"{left} of memory are left; earlyoom ends the engine at 2 %"
    if reading.disk_free < _DISK:
        free = f"{reading.disk_free / _GIB:.1f} GiB"
        yield f"{free} are free on the disk; deploys/clean.py makes room"


def _of_release(row: Row, reading: Reading) -> Iterator[str]:
    wanted = row.recipe
    for release in reading.switches:
        yield f"a switch to {release} is under way"
    if reading.release is None:
        if wanted and not reading.switches:
            yield f"{wanted} was not set up yet; deploys/spark.py does it"
        return
    runs = reading.unit is not None and not reading.unit.ended
    if wanted and reading.recipe != wanted:
        found = f"{reading.recipe or reading.release} is set up"
        yield f"{found}; the inventory asks for {wanted}; deploys/spark.py switches to it"
    elif not wanted and runs:
        yield f"{reading.release} runs; the inventory leaves this Spark idle"


def _of_engine(row: Row, reading: Reading) -> Iterator[str]:
    for release in reading.others:
        if not reading.switches:
            yield f"vllm@{release} runs as well"
    unit, load = reading.unit, reading.load
    if row.recipe is None or reading.release is None:
        return
    if unit is None or unit.active != "active":
        said = f" ({unit.status})" if unit and unit.status else ""
        yield f"the engine is {unit.active if unit else 'not there'}{said}"
    elif row.rank == 0 and load is None:
        yield "the engine does not answer /metrics"
    if unit and unit.restarts:
        yield f"the engine was started again {unit.restarts} times; deploys/doctor.py tells why"
    if row.rank == 0 and reading.door != "active":
        yield f"the door is {reading.door}: clients get no answer; systemctl status door"
    if load and load.kv_usage > _KV_FULL and load.waiting:
        yield f"the KV cache is full, and {load.waiting} requests wait"


_HEADINGS = (
    *("spark", "replica", "recipe", "release", "up since", "tok/s", "requests", "KV", "drafts"),
    *("GiB", "MHz", "W", "°C", "restarts"),
)
# Those that are numbers, which line up on their right.
_NUMBERS = frozenset(_HEADINGS[5:])


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table for people: a heading, and a line for each Spark."""
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in _NUMBERS else cell.ljust(width)
            for heading, cell, width in zip(_HEADINGS, line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]


def _cells(row: Row) -> tuple[str, ...]:
    served = (row.spark, row.replica or "-", row.recipe or "-")
    reading = row.reading
    if reading is None:
        return *served, "-", "no answer", *("-" for _ in _NUMBERS)
    load, gpu, unit = reading.load, reading.gpu, reading.unit
    requests = "-"
    if load:
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
        _rounded(gpu.clock if gpu else None),
        _rounded(gpu.power if gpu else None),
        _rounded(gpu.temperature if gpu else None),
        str(unit.restarts) if unit else "-",
    )


def _short(release: str | None, recipe: str | None, wanted: str) -> str:
    """Return what tells releases of the recipe apart; all of it where it is of another recipe."""
    if release is None:
        return "-"
    return release.removeprefix(f"{recipe}-") if recipe == wanted else release


def _since(row: Row, reading: Reading) -> str:
    if reading.since is not None:
        return datetime.fromtimestamp(reading.since).strftime("%d %b %H:%M")
    if row.recipe is None:
        return "idle"
    words = {"activating": "starting", "inactive": "stopped", "deactivating": "stopping"}
    state = reading.unit.active if reading.unit else "not there"
    return words.get(state, state)


def _memory(reading: Reading) -> str:
    used, total = _used(reading)
    return f"{used / _GIB:.0f}/{total / _GIB:.0f}"


def _used(reading: Reading) -> tuple[int, int]:
    """Return bytes used and there, of what an engine takes: the GPU's own memory, if any."""
    gpu = reading.gpu
    if gpu and gpu.memory_used is not None and gpu.memory_total is not None:
        return gpu.memory_used, gpu.memory_total
    return reading.memory_total - reading.memory_available, reading.memory_total


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def as_json(rows: Iterable[Row], now: float) -> str:
    """Return a reading for machines, on one line; null is what is not known, or not there.

    Args:
        rows: All Sparks.
        now: When they were read, in seconds since the epoch.
    """
    return json.dumps({"time": round(now, 3), "sparks": [_entry(row) for row in rows]})


def _entry(row: Row) -> Mapping[str, Any]:
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
        "state": unit and unit.active,
        "status": unit and unit.status,
        "up_since": reading.since,
        "restarts": unit and unit.restarts,
        "tokens_per_second": load and round(load.tokens, 1),
        "prompt_tokens_per_second": load and round(load.prompt_tokens, 1),
        "requests_running": load and load.running,
        "requests_waiting": load and load.waiting,
        "kv_cache_usage": load and load.kv_usage,
        "draft_acceptance": load and load.acceptance,
        "memory_used_bytes": used,
        "memory_total_bytes": total,
        "disk_free_bytes": reading.disk_free,
        "gpu_clock_mhz": gpu and gpu.clock,
        "gpu_power_w": gpu and gpu.power,
        "gpu_temperature_c": gpu and gpu.temperature,
        "gpu_busy_percent": gpu and gpu.busy,
        "door": reading.door if row.rank == 0 else None,
    }


def watch_seconds(value: object) -> int | None:
    """Return the seconds between two refreshes, by `--data watch=…`; None for one look.

    Raises:
        PlanError: It is no such number.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value in _WATCH:
        return value
    raise PlanError(
        f"--data watch: found {value!r}; expected seconds from {_WATCH[0]} to {_WATCH[-1]}"
    )


def json_target(value: object) -> str | None:
    """Return where the JSON goes, by `--data json=…`: a path, or "-"; None for nowhere.

    Raises:
        PlanError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, str) and value and not value.endswith("/"):
        return value
    raise PlanError(
        f"--data json: found {value!r}; expected the path of a file, or - for standard output"
    )
