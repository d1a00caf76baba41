"""The present state of a Spark as the status reads it."""

from dataclasses import dataclass
from typing import ClassVar

from sparkwright.common.part import Bounded, Part
from sparkwright.common.startup import Start
from sparkwright.door.door import UNIT
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.checkup import GpuReading, HardDown

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


class Turn(Bounded):
    """A replica as the loop of turns has it: files/host/engine/turns/DESIGN.md has its keys."""

    phase: str
    closed: bool
    waiting: int
    starts: int
    hits: int
    refused: int
    seconds: int
    why: str


class Reading(Part):
    """The present state of one Spark.

    Attributes:
        last: the release that came to serve last.
        release, recipe: what should serve, by its `current` link; None where nothing was set up.
        models: the names by which clients ask for that release.
        unit: the engine of that release; None where systemd knows none.
        starts: those of its recipe and image, the last one last.
        others: further releases that run or start.
        switches: releases to which a switch is under way.
        load: None where no engine answers, as on a worker of a group.
        clock_limit: MHz that the GPU's clock may reach; None where we have set no limit.
        door: the state of its unit, as systemd names it.
        held: requests that waited at the door for an engine, at most 15 s ago; None if unknown.
        standby: the engine of its next start waits beside it.
        down: its last hard end, of a day.
        turn: None where requests do not start it, or nothing is known of that.
    """

    part: ClassVar = "status"
    patience: ClassVar = PATIENCE

    last: str | None = None
    release: str | None
    recipe: str | None
    models: tuple[str, ...]
    unit: EngineUnit | None
    starts: tuple[Start, ...] = ()
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
    standby: bool = False
    down: HardDown | None = None
    turn: Turn | None = None

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
        on_demand: requests start it.
        offer: how to serve without those who are missing.
    """

    spark: str
    replica: str | None
    recipe: str | None
    rank: int | None
    reading: Reading | None
    slow: bool = False
    silent: str = "no answer"
    door: str = UNIT
    on_demand: bool = False
    offer: str = ""
