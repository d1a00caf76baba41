"""The present status of a Spark, and the Spark of the inventory that it is of."""

from dataclasses import dataclass
from typing import ClassVar

from sparkwright.common.part import Bounded, Part
from sparkwright.door.door import UNIT
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.gpu import GpuReading

# Seconds for one reading: the engine's counters twice within a second, and nvidia-smi.
PATIENCE = 5


class EngineLoad(Bounded):
    """The work of an engine, by two readings of its counters.

    Attributes:
        tokens: generated in a second, by all requests together.
        prompt_tokens: read in a second, including those from the prefix cache.
        running, waiting: requests; None if this vLLM has no such metric.
        kv_usage: share of the KV cache that is in use, 0 to 1; None if this vLLM has no such
            metric.
        acceptance: share of the drafted tokens that were accepted since the engine's start; None
            without drafts.
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
        memory_total, memory_available, disk_free: in bytes.
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
