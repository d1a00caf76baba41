"""The present status of a Spark: one reading, made by one shell script."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sparkwright.common.host_output import read_json, sections, sections_script
from sparkwright.common.placed import seat_of
from sparkwright.door.door import UNIT, door_unit
from sparkwright.engine.engine import parse_engines, state_script
from sparkwright.engine.metrics import LOAD, EngineLoad, load, metrics_command
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.gpu import GPU_COMMAND, GpuReading, parse_gpu
from sparkwright.plan.release.release import current_engine

# Seconds for one reading: the engine's counters twice within a second, and nvidia-smi.
PATIENCE = 5


@dataclass(frozen=True)
class Reading:
    """The present state of one Spark.

    Attributes:
        release, recipe: what should serve, by its `current` link; None where nothing was set up.
        models: the names by which clients ask for that release.
        unit: the engine of that release; None where systemd knows none.
        others: further releases that run or start.
        switches: releases to which a switch is under way.
        since: when the engine began to serve, in seconds since the epoch; None while it does not.
        load: None where no engine answers, as on the worker of a pair.
        clock_limit: MHz that the GPU's clock may reach; None where we have set no limit.
        memory_total, memory_available, disk_free: in bytes.
        door: the state of its unit, as systemd names it.
        held: requests that waited at the door for an engine, at most 15 s ago; None if unknown.
    """

    release: str | None
    recipe: str | None
    models: tuple[str, ...]
    unit: EngineUnit | None
    others: tuple[str, ...]
    switches: tuple[str, ...]
    since: int | None
    load: EngineLoad | None
    gpu: GpuReading | None
    clock_limit: int | None
    memory_total: int
    memory_available: int
    disk_free: int
    door: str
    held: int | None


@dataclass(frozen=True)
class SparkRow:
    """A Spark of the inventory.

    Attributes:
        replica, recipe, rank: what the inventory has it serve, by names; None for an idle one.
        reading: None where there was no answer.
        slow: there was none in time, but a login.
        silent: why there was none.
        door: the unit of the replica's door.
    """

    spark: str
    replica: str | None
    recipe: str | None
    rank: int | None
    reading: Reading | None
    slow: bool = False
    silent: str = "no answer"
    door: str = UNIT


def status_script(root: str) -> str:
    """Return the POSIX shell script that reads a Spark; it needs no rights, and takes 1 to 2 s."""
    folder, seat = shlex.quote(root), seat_of(root)
    labels = 'spark="[^"]*"' + (f',seat="{seat}"' if seat else "")
    parts = {
        "release": f"cat {folder}/current/release.json",
        "since": "systemctl show --value --timestamp=unix --property=ActiveEnterTimestamp $unit",
        "first": "metrics",
        "gpu": GPU_COMMAND,
        "clock limit": f"cat {folder}/state/gpu-clock",
        "second": "systemctl is-active --quiet $unit && sleep 1 && metrics",
        "memory": "awk '/^(MemTotal|MemAvailable):/ {print $2}' /proc/meminfo",
        "disk": f"folder={folder}; while [ ! -e $folder ]; do folder=$(dirname $folder); done; "
        "df --block-size=1 --output=avail $folder | tail -n 1",
        "door unit": f"systemctl is-active {door_unit(root)}",
        # The door itself answers only root.
        "held": f"find {folder}/metrics/spark.prom -mmin -1 "
        rf"-exec sed -n 's/^spark_door_requests_waiting{{{labels}}} //p' {{}} +",
    }
    prelude = f"""\
{current_engine(root)}
metrics() {{
  date +%s.%N
  {metrics_command(LOAD, "$root")}
}}
# Nobody but root reaches an engine beside its door.
root=; [ "$(id -u)" = 0 ] || root='sudo -n'"""
    return "\n".join([prelude, state_script(root), sections_script(parts)])


def parse_status(output: Iterable[str]) -> Reading:
    """Return the reading that the script's output lines describe.

    Raises:
        ValueError: a section that every Linux host has is missing or malformed.
    """
    lines = list(output)
    parts = sections(lines)
    try:
        state = parse_engines(lines)
        unit = state.units.get(state.current or "")
        others = {name for name, each in state.units.items() if not each.ended} - {state.current}
        total, available = (int(kib) * 1024 for kib in parts["memory"])
        active = unit is not None and unit.active == "active"
        recipe, models = _contents("\n".join(parts["release"]))
        return Reading(
            release=state.current,
            recipe=recipe,
            models=models,
            unit=unit,
            others=tuple(sorted(others)),
            switches=state.switches,
            since=_number(parts["since"]) if active else None,
            load=load(parts["first"], parts["second"]),
            gpu=parse_gpu(parts["gpu"]),
            clock_limit=_number(parts["clock limit"]),
            memory_total=total,
            memory_available=available,
            disk_free=int(parts["disk"][0]),
            door="".join(parts["door unit"]) or "unknown",
            held=_number(parts["held"]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"the reading of the host is incomplete: {error!r}") from error


def _number(lines: Iterable[str]) -> int | None:
    """Return the one number that a section holds; systemd writes @ before seconds."""
    digits = "".join(lines).removeprefix("@")
    return int(digits) if digits.isdecimal() else None


def _contents(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the recipe of a release and its model names, by its `release.json`."""
    try:
        content = read_json(text)
        return str(content["recipe"]), tuple(map(str, content.get("served_names", ())))
    except (ValueError, KeyError, TypeError):
        return None, ()
