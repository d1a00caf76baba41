"""A switch from one release to another: whether both fit into memory, and its result."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from sparkwright.common.hardware import GIB, Hardware
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.common.placed import Place
from sparkwright.common.startup import Start
from sparkwright.machine.host.survey import Handover
from sparkwright.plan.memory.plan import CONTEXT, HOST, LEAST, Load, plan_memory
from sparkwright.plan.memory.turns import LAB_LEAST, lab_bytes

# The name of a switch's unit, of its orders and of its report.
JOB = "switch@{}"
# A model on demand that a person has stopped: else the next request would start it.
MASK, _UNMASK = "systemctl mask --runtime --quiet", "systemctl unmask --runtime --quiet"


class MemoryState(Part):
    """A Spark's memory now, and what engines take by the orders of their last switches, in bytes.

    Attributes:
        total: MemTotal.
        gpu_free: free bytes of the GPU's own memory; None if it has none.
        engine: of the release that is to serve; None if no orders tell.
        beside: of the engines of the Spark's other seats, whether they run now or not.
        reserved: of those that do not run now.
    """

    part: ClassVar = "machine.memory"

    total: int
    available: int
    handover: Handover
    gpu_free: int | None
    engine: int | None
    beside: int
    reserved: int

    @property
    def free(self) -> int:
        """What a program gets."""
        return self.available - self.handover


@dataclass(frozen=True)
class SwitchSettings:
    """The settings of a switch.

    Attributes:
        trial: seconds for which the new engine must serve before the previous one is given up.
        drain: seconds that requests in flight get to end.
        door: whether there is a door before the engine: on the head of a replica.
        load: of the new release; None if it is unknown.
        others: the folders of the Spark's other seats, but for those that make room.
        on_demand: requests start it, in turn with others; it does not boot.
        shares: other Sparks copy from it, maybe in another seat.
    """

    trial: int
    drain: int
    door: bool
    hardware: Hardware
    load: Load | None
    others: tuple[str, ...] = ()
    on_demand: bool = False
    shares: bool = False

    def ask_memory(self, root: str, release: str) -> Ask[MemoryState]:
        """Return the ask for the memory that a release has to fit in."""
        return MemoryState.ask(root=root, release=release, others=self.others)


class SwitchReport(Bounded, extra="ignore"):
    """The report of a switch by its program: files/host/engine/switch/state.py.

    Attributes:
        previous: the release that served before; None if none did.
        restored: whether that one serves, still or again; None if it was not checked.
        began: seconds since the epoch.
        beside: both ran side by side.
        seconds, gap: of the whole switch, and of the time in which requests were refused.
    """

    phase: str
    total: float
    message: str
    # With \w, which has all of Unicode's letters, pydantic takes 60 ms to compile the pattern.
    previous: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,200}$")] | None
    restored: bool | None
    beside: bool
    began: int
    seconds: float
    gap: float


class SwitchState(Part):
    """A switch under way, or the last one to a release.

    Attributes:
        ended: its unit does not run.
        start: of the engine, once it serves.
        cursor: up to which the journal was read.
        lines: the new ones of the candidate's log.
    """

    part: ClassVar = "engines.switch"

    ended: bool
    report: SwitchReport | None
    start: Start | None = None
    cursor: str | None
    lines: tuple[str, ...]


@dataclass
class Outcome:
    """The result of a switch; it is filled while the switch goes on.

    Attributes:
        served: the release serves, and starts at boot.
        attempted: a switch was begun, or one under way was joined.
        reason: why it does not serve.
        start, log: of the engine.
        began: seconds on a monotonic clock.
    """

    served: bool = False
    attempted: bool = False
    reason: str = ""
    report: SwitchReport | None = None
    start: Start | None = None
    log: list[str] = field(default_factory=list)
    ended: bool = False
    began: float = field(default_factory=time.monotonic)

    def take(self, report: SwitchReport) -> None:
        """Take over the last report of the switch's program."""
        self.report, self.served = report, report.phase == "done"
        self.reason = "" if self.served else report.message


def engine_size(settings: SwitchSettings, memory: MemoryState) -> int | None:
    """Return the bytes that the engine of a release takes; None if that is unknown."""
    hardware, load = settings.hardware, settings.load
    if load and not hardware.total_gib:
        return lab_bytes(load)
    if not load or not (plan := plan_memory(load, hardware, memory.total)):
        return memory.engine
    return plan.engine + (0 if hardware.unified else CONTEXT)


def is_beside(settings: SwitchSettings, memory: MemoryState) -> bool:
    """Tell whether a new engine fits beside all that runs now.

    A group never does: its ports on the fabric are fixed. Nor does one that takes turns: it waits.
    """
    engine, alone = engine_size(settings, memory), settings.load and settings.load.sparks > 1
    if engine is None or alone or settings.on_demand:
        return False
    if not settings.hardware.unified:
        return memory.gpu_free is not None and engine + memory.reserved <= memory.gpu_free
    least = LEAST[1] * GIB if settings.hardware.total_gib else LAB_LEAST
    return engine + memory.reserved + least <= memory.free


def crowded(settings: SwitchSettings, memory: MemoryState) -> str | None:
    """Return why an engine must not start while the Spark's others have theirs, or None.

    The preflight judges what is declared. This is for an earlier release of either replica, which
    was made for a Spark of its own.
    """
    engine, hardware = engine_size(settings, memory), settings.hardware
    if not (engine and memory.beside and hardware.total_gib):
        return None
    if hardware.unified:
        room = memory.total - HOST[1] - LEAST[1] * GIB
    else:
        room = int(hardware.total_gib * GIB)
    if engine + memory.beside <= room:
        return None
    return (
        f"its {engine / GIB:.1f} GiB and the {memory.beside / GIB:.1f} GiB of the Spark's other "
        f"replicas are more than the {room / GIB:.1f} GiB for engines. Have the others serve "
        "what the inventory says first: `--limit` and a name"
    )


def orders(settings: SwitchSettings, memory: MemoryState) -> str:
    """Return the orders for the program of the switch."""
    times = {"trial": settings.trial, "drain": settings.drain, "door": settings.door}
    if settings.on_demand and settings.load:
        # What serves again is started: somebody wants to see it.
        times["lazy"] = True
    # The size is for a rollback: the Spark alone cannot tell it.
    data = {"beside": is_beside(settings, memory), **times, "engine": engine_size(settings, memory)}
    return json.dumps(data) + "\n"


def progress_line(report: SwitchReport) -> str:
    """Return the sentence about a phase; "" for one that is shown otherwise."""
    previous = report.previous
    starts = f"it starts in place of {previous}: requests wait at the door until it serves"
    if report.beside:
        starts = f"it starts beside {previous}, which serves meanwhile"
    return {
        "waiting": f"waiting {report.message}",
        "draining": f"{previous} gets no new requests; {report.message or 'none is in flight'}",
        "preparing": f"its standby gets ready while {previous} serves",
        "starting": starts if previous else "",
        "trial": f"it serves, and is on trial for {report.total:.0f} s",
        "stopping": f"{previous or 'another release'} is stopped",
        "returning": "it is taken back" + (f": {previous} is to serve again" if previous else ""),
    }.get(report.phase, "")


def failure(release: str, outcome: Outcome) -> str:
    """Return the sentences about a switch that failed, without the log."""
    unit, report = f"vllm@{release}", outcome.report
    words = [f"{release} does not serve: {outcome.reason.rstrip('.')}."]
    if report and report.previous and report.restored:
        words.append(f"{report.previous} serves again; {unit} stays off.")
    elif report and report.previous:
        words.append(f"{report.previous} does not serve now, but is what boots; {unit} stays off.")
    else:
        words.append(f"{unit} is off.")
    words.append(f"Full log: journalctl -u {unit} -u {JOB.format(release)}")
    return "\n".join(words)


def unmasked(place: Place, release: str, door: bool) -> str:
    """Return the command that lets requests start a release which a person has stopped, at once."""
    script = f"{_UNMASK} {shlex.quote(f'vllm@{release}.service')}"
    if door:
        program = shlex.quote(f"{place.root}/bin/sparkwright-host")
        script += f" && python3 -B {program} door {shlex.quote(place)} sync"
    return script
