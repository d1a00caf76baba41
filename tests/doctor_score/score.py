"""The corpus of public incidents and healthy logs, and the score over it.

The score: how often the doctor names the cause that a thread found.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from host.state.checkup import KERNEL
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.checkup import Checkup, Finished
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.insight.doctor.report import SHOWN
from sparkwright.machine.host.survey import Kernel
from tests.makers.gpu import gpu

_GIB, _MIB = 1024**3, 1024**2
HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
# The one that entries are written with, and the one that is only scored.
WORKING, SCORED = "working", "scored"
# Those collected later, each time that the doctor knew the former ones; drawn alike.
FRESH_WORKING, FRESH_SCORED = "fresh_working", "fresh_scored"
THIRD_WORKING, THIRD_SCORED = "third_working", "third_scored"
# Collected last, of Sparks above all, and only scored.
LAST_SCORED = "last_scored"
PARTS = WORKING, SCORED, FRESH_WORKING, FRESH_SCORED, THIRD_WORKING, THIRD_SCORED, LAST_SCORED


@dataclass(frozen=True)
class Incident:
    """What somebody reported in public.

    Attributes:
        name: ours.
        thread: OWNER/REPOSITORY#NUMBER, a file of a repository, or the address of a page.
        cause: what the thread found, by the name of the doctor's entry, or by a name that no entry
            has; None of a healthy log.
        also: names of entries that say the same of it.
        log, kernel: lines of the engine's journal, and of the kernel's log.
        readings: of the host, see `score.checkup`.
    """

    name: str
    thread: str
    cause: str | None
    also: tuple[str, ...]
    log: tuple[str, ...]
    kernel: tuple[str, ...]
    readings: Mapping[str, Any]

    @property
    def part(self) -> str:
        """WORKING or SCORED, as the seed draws: all of one thread are together."""
        thread = re.sub(r" \(.*\)$", "", self.thread)
        drawn = hashlib.sha256(f"sparkwright {thread}".encode()).digest()[0]
        return WORKING if drawn < 128 else SCORED


def load(part: str) -> list[Incident]:
    """Return the incidents and healthy logs of one of PARTS."""
    found = yaml.load(
        (HERE / f"{part}.yaml").read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return [_incident(**entry) for entry in found["incidents"] + found["healthy"]]


def _incident(id: str, thread: str = "", file: str = "", **entry: Any) -> Incident:
    # The first line of a file says where it is from.
    log = (PROJECT / file).read_text().splitlines()[1:] if file else entry.get("log", ())
    return Incident(
        name=id,
        thread=thread or file,
        cause=entry.get("cause"),
        also=tuple(entry.get("also", ())),
        log=tuple(log),
        kernel=tuple(entry.get("dmesg", ())),
        readings=entry.get("readings", {}),
    )


@dataclass(frozen=True)
class Score:
    """What the doctor made of a part of the corpus.

    Attributes:
        incidents, healthy: how many there are of each.
        first, shown: of how many incidents the cause came first, and among those shown in full.
        alarms: names of the healthy logs in which it saw a cause.
        missed: names of the incidents whose cause did not come first, with what did.
    """

    incidents: int
    healthy: int
    first: int
    shown: int
    alarms: tuple[str, ...]
    missed: tuple[tuple[Incident, tuple[str, ...]], ...]

    def __str__(self) -> str:
        silent = sum(not names for _, names in self.missed)
        return (
            f"{self.incidents} incidents, top-1 {self.first} ({self.first / self.incidents:.0%}), "
            f"top-{SHOWN} {self.shown} ({self.shown / self.incidents:.0%}), "
            f"wrong {len(self.missed) - silent}, silent {silent}; "
            f"{self.healthy} healthy logs, {len(self.alarms)} false alarms"
        )


def score(cases: Iterable[Incident]) -> Score:
    """Return how the doctor does."""
    incidents = healthy = first = shown = 0
    alarms, missed = [], []
    for case in cases:
        found = tuple(each.name for each in diagnose(checkup(case)))
        if case.cause is None:
            healthy += 1
            alarms += [case.name] if found else []
            continue
        incidents += 1
        right = {case.cause, *case.also}
        shown += not right.isdisjoint(found[:SHOWN])
        first += not right.isdisjoint(found[:1])
        missed += [(case, found)] if right.isdisjoint(found[:1]) else []
    return Score(incidents, healthy, first, shown, tuple(alarms), tuple(missed))


def checkup(case: Incident) -> Checkup:
    """Return a Spark as the doctor would find it: what the thread does not tell is sound.

    Readings: `active` (whether the engine runs), `restarts`, `downs`, `kernel`, `driver`,
    `runtimes`, `memory` (total, free, available, in GiB), `cma` (named and free, in
    MiB), `gpu` (MHz, W, per cent busy), `finished` (requests that were cut, and that ended),
    `cpu` (MHz), `nic` (lines of lspci).
    """
    told = dict(case.readings)
    active = told.pop("active", case.cause is None)
    named, unused = told.pop("cma", (0, 0))
    kept = max(0, int((unused - named) * _MIB))
    cut, ended = told.pop("finished", (1, 20))
    unit = EngineUnit(
        release="x-0a1b2c3d",
        active="active" if active else "failed",
        restarts=told.pop("restarts", 0),
        enabled=True,
        outdated=False,
        starting=False,
        status="serving" if active else "",
    )
    found = Checkup(
        release=unit.release,
        unit=unit,
        log=(*case.log, *(line for line in case.kernel if KERNEL.search(line))),
        clock=0.0,
        kernel=Kernel(told.pop("kernel", "6.17.0-1032-nvidia"), "", kept, pools=False),
        driver=told.pop("driver", "580.173.02"),
        memory=tuple(int(size * _GIB) for size in told.pop("memory", (121, 20, 25))),
        swapped=0,
        free={"/opt/qwen36": 900 * _GIB, "/var/lib/docker": 900 * _GIB},
        docker="29.6.2",
        runtimes=tuple(told.pop("runtimes", ("io.containerd.runc.v2", "nvidia", "runc"))),
        gpu=gpu(*told.pop("gpu", (2418, 62, 96))),
        gpu_inside="",
        downs=told.pop("downs", 0),
        finished=Finished(cut=cut, ended=ended),
        cpu=told.pop("cpu", None),
        nic=tuple(told.pop("nic", ())),
    )
    if told:
        raise ValueError(f"{case.name}: found readings {sorted(told)}; expected those of `checkup`")
    return found
