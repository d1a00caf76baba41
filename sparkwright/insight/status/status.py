"""The present status of a Spark of the inventory, and warnings about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sparkwright.common.command_line import next_line
from sparkwright.common.hardware import GIB
from sparkwright.common.part import Bounded, Part
from sparkwright.door.door import UNIT
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.checkup import GpuReading
from sparkwright.plan.causes.thresholds import DISK_FULL, EARLYOOM, KV_FULL, MEMORY_LOW

# Seconds for one reading: the engine's counters twice within a second, and nvidia-smi.
PATIENCE = 5


class EngineLoad(Bounded):
    """The work of an engine, by two readings of its counters; None for what this vLLM lacks.

    Attributes:
        tokens, prompt_tokens: generated and read in a second, by all requests together.
        kv_usage: share of the KV cache that is in use, 0 to 1.
        acceptance: share of the drafted tokens that were accepted since the engine's start.
    """

    tokens: float
    prompt_tokens: float
    running: int | None
    waiting: int | None
    kv_usage: float | None
    acceptance: float | None


class Reading(Part):
    """The present state of one Spark.

    Attributes:
        release, recipe: what should serve, by its `current` link; None where nothing was set up.
        models: the names by which clients ask for that release.
        unit: the engine of that release; None where systemd knows none.
        others: further releases that run or start.
        switches: releases to which a switch is under way.
        load: None where no engine answers, as on the worker of a pair.
        clock_limit: MHz that the GPU's clock may reach; None where we have set no limit.
        door: the state of its unit, as systemd names it.
        held: requests that waited at the door for an engine, at most 15 s ago; None if unknown.
    """

    part: ClassVar = "status"
    patience: ClassVar = PATIENCE

    release: str | None
    recipe: str | None
    models: tuple[str, ...]
    unit: EngineUnit | None
    others: tuple[str, ...]
    switches: tuple[str, ...]
    load: EngineLoad | None
    gpu: GpuReading | None
    clock_limit: int | None
    memory_total: int
    memory_available: int
    disk_free: int
    door: str
    held: int | None

    @property
    def since(self) -> int | None:
        """When the engine began to serve, in seconds since the epoch; None while it does not."""
        return self.unit.since if self.unit and self.unit.active == "active" else None


@dataclass(frozen=True)
class SparkRow:
    """A Spark of the inventory, and what it should serve.

    Attributes:
        reading: None where there was no answer: `silent` says why.
        slow: there was a login, and no answer in time.
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


def warnings(row: SparkRow) -> Iterator[str]:
    """Yield what an owner should look at, a sentence each."""
    reading = row.reading
    if row.slow:
        yield f"it took the login, but gave no answer within {PATIENCE} s"
        return
    if reading is None:
        yield row.silent
        return
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
    if unit is None or unit.active != "active":
        status = f" ({unit.status})" if unit and unit.status else ""
        yield f"the engine is {unit.active if unit else 'not there'}{status}"
    elif row.rank == 0 and load is None:
        yield "the engine does not answer /metrics"
    if unit and unit.restarts:
        yield f"the engine was started again {unit.restarts} times; {next_line('doctor')} tells why"
    if row.rank == 0 and reading.door != "active":
        yield f"the door is {reading.door}: clients get no answer; systemctl status {row.door}"
    if reading.held:
        yield f"the door holds {reading.held} requests until an engine serves"
    if load and load.kv_usage and load.kv_usage > KV_FULL and load.waiting:
        yield f"the KV cache is full, and {load.waiting} requests wait"
