"""metrics ROOT [FILE]: metrics of a Spark's GPU, engine, memory and door, which no exporter has.

Prints Prometheus' text format. With FILE, that of a node exporter's text collector, writes it there
instead, and on the head of a group with what each worker tells of itself over the fabric.
"""

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from host.common.atomic import replace
from host.common.command_line import words
from host.common.seat import SEATS, seat_of
from host.door.door import Door
from host.door.haproxy import DoorError
from host.state import gpu
from host.state.engines import current, engines
from host.state.readers import UnknownError, meminfo
from host.state.status import turn

# TCP port of the worker, on its first address of the fabric: fabric-metrics.socket.
PORT = 29503
# Seconds for a worker; a sound one answers within one.
PATIENCE = 5.0
# Characters that a worker may tell; it tells about one thousand.
MOST = 65536
# Name -> kind and meaning.
METRICS = {
    "spark_gpu_clock_hertz": ("gauge", "Clock of the GPU's multiprocessors."),
    "spark_gpu_power_watts": ("gauge", "Power that the GPU draws."),
    "spark_gpu_temperature_celsius": ("gauge", "Temperature of the GPU."),
    "spark_gpu_busy_ratio": ("gauge", "Share of the last second in which the GPU was at work."),
    "spark_gpu_memory_used_bytes": ("gauge", "Memory of a graphics card in use; a GB10 has none."),
    "spark_gpu_memory_total_bytes": ("gauge", "Memory of a graphics card; a GB10 has none."),
    "spark_memory_available_bytes": ("gauge", "Memory of the host that can be had."),
    "spark_memory_total_bytes": ("gauge", "Memory of the host."),
    "spark_engine_active": ("gauge", "Whether the engine's unit has begun to serve."),
    "spark_engine_failed": ("gauge", "Whether the engine's unit has given up."),
    "spark_engine_restarts_total": ("counter", "Starts of the engine by systemd, after its end."),
    "spark_door_requests_total": ("counter", "Requests to the door, by the name of their key."),
    "spark_door_requests_in_flight": ("gauge", "Those in its hands, by the name of their key."),
    "spark_door_requests_held_total": ("counter", "Those that came while no engine served."),
    "spark_door_requests_waiting": ("gauge", "Requests that the door holds for an engine."),
    "spark_door_requests_given_up_total": ("counter", "Those that it held in vain."),
    "spark_turn_starting": ("gauge", "Whether an engine that requests start does so now."),
    "spark_turn_starts_total": ("counter", "Its starts."),
    "spark_turn_hits_total": ("counter", "Requests that it got."),
    "spark_turn_refused_total": ("counter", "Times that requests which waited were refused."),
    "spark_turn_start_seconds": ("gauge", "What a start takes."),
    "spark_peer_answers": ("gauge", "Whether another Spark of the group told of itself."),
}
# Metric -> the reading of the GPU that it tells, and its unit in units of Prometheus.
_GPU = {
    "spark_gpu_clock_hertz": ("clock", 1e6),
    "spark_gpu_power_watts": ("power", 1.0),
    "spark_gpu_temperature_celsius": ("temperature", 1.0),
    "spark_gpu_busy_ratio": ("busy", 0.01),
    "spark_gpu_memory_used_bytes": ("memory_used", 1.0),
    "spark_gpu_memory_total_bytes": ("memory_total", 1.0),
}
_LINE = re.compile(r'(?P<name>\w+)\{spark="(?P<spark>[\w.-]+)"\} (?P<value>-?[\d.]+(e[+-]?\d+)?)')


class Sample(NamedTuple):
    """One value of a metric, maybe about one key, or about the second of a Spark's replicas."""

    name: str
    spark: str
    value: float
    key: str = ""
    seat: str = ""

    def __str__(self) -> str:
        labels = {"spark": self.spark, "key": self.key, "seat": self.seat}
        shown = ",".join(f'{name}="{value}"' for name, value in labels.items() if value)
        return f"{self.name}{{{shown}}} {self.value:.12g}"


def own(root: Path) -> Iterator[Sample]:
    """Yield what this Spark tells of itself; what cannot be read is left out."""
    spark, _ = _group(root)
    for name, value in _gpu():
        yield Sample(name, spark, value)
    for kind in ("Available", "Total"):
        yield Sample(f"spark_memory_{kind.lower()}_bytes", spark, meminfo()[f"Mem{kind}"])
    for place in (root, *sorted(root.glob(f"{SEATS}/*"))):
        for name, value in (*_engine(place), *_turn(place)):
            yield Sample(name, spark, value, seat=seat_of(place))
        for name, value, key in _door(place):
            yield Sample(name, spark, float(value), key, seat_of(place))


def of_workers(root: Path) -> Iterator[Sample]:
    """Yield what the workers of this head tell; nothing on another Spark."""
    _, workers = _group(root)
    with ThreadPoolExecutor(len(workers) or 1) as asking:
        for found in asking.map(_of_worker, *zip(*workers, strict=True)):
            yield from found


def _of_worker(name: str, address: str) -> list[Sample]:
    try:
        found = [*parse(_ask(address), name)]
    except (OSError, ValueError):
        found = []
    return [*found, Sample("spark_peer_answers", name, float(bool(found)))]


def parse(text: str, spark: str) -> Iterator[Sample]:
    """Yield the samples of another Spark's text that are ours, and about that Spark."""
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
        if line["name"] in METRICS and line["spark"] == spark:
            yield Sample(line["name"], spark, float(line["value"]))


def text_of(samples: Iterable[Sample]) -> str:
    """Return samples in Prometheus' text format, those of a metric together."""
    known = list(samples)
    lines = []
    for name, (kind, meaning) in METRICS.items():
        values = [str(each) for each in known if each.name == name]
        if values:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *values]
    return "".join(f"{line}\n" for line in lines)


def _group(root: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return this Spark's name, and on the head of a group the workers' names and addresses."""
    try:
        unit = json.loads((root / "current" / "unit.json").read_text("utf-8"))
        sparks, fabric, rank = unit["sparks"], unit["fabric"], unit["rank"]
        addresses = [each[0] for each in fabric]
        workers = list(zip(sparks, addresses, strict=False))[1:] if rank == 0 else []
        return sparks[rank], workers
    except (OSError, ValueError, LookupError, TypeError):
        return socket.gethostname(), []


def _ask(address: str) -> str:
    connection = socket.create_connection((address, PORT), timeout=PATIENCE)
    with connection as client, client.makefile(encoding="utf-8") as answer:
        return answer.read(MOST)


def _gpu() -> Iterator[tuple[str, float]]:
    try:
        best = gpu.read()["gpu"] or {}
    except UnknownError:
        return
    for name, (reading, unit) in _GPU.items():
        if (number := best.get(reading)) is not None:
            yield name, number * unit


def _engine(root: Path) -> Iterator[tuple[str, float]]:
    release = current(str(root)) or ""
    try:
        unit = engines(release).get(release)
    except UnknownError:
        return
    if unit:
        yield "spark_engine_active", float(unit["active"] == "active")
        yield "spark_engine_failed", float(unit["active"] == "failed")
        yield "spark_engine_restarts_total", float(unit["restarts"])


def _turn(root: Path) -> Iterator[tuple[str, float]]:
    if said := turn(str(root)):
        yield "spark_turn_starting", float(said["phase"] == "starting")
        yield "spark_turn_start_seconds", said["seconds"]
        for name in ("starts", "hits", "refused"):
            yield f"spark_turn_{name}_total", said[name]


def _door(root: Path) -> Iterator[tuple[str, int, str]]:
    """Yield name, value and key of each sample of the door; a worker has none."""
    # It may not look behind a seat's link.
    if not os.path.lexists(root / "door"):
        return
    try:
        door = Door(root)
        names, (waiting, given_up) = door.haproxy.names(), door.haproxy.held()
    except (DoorError, OSError):
        return
    for key, values in names.items():
        for name, value in zip(("total", "in_flight", "held_total"), values, strict=True):
            yield f"spark_door_requests_{name}", value, key
    yield "spark_door_requests_waiting", waiting, ""
    yield "spark_door_requests_given_up_total", given_up, ""


def command() -> None:
    """Print or write the metrics, as the command line says."""
    folder, *files = words(__doc__, "ROOT", rest="FILE")
    root = Path(folder)
    for file in files:
        replace(Path(file), text_of([*own(root), *of_workers(root)]))
    if not files:
        print(text_of(own(root)), end="")
