"""The score: how often the doctor names the cause that a thread found."""

from collections.abc import Iterable
from dataclasses import dataclass

from host.state.checkup import KERNEL
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.doctor.checkup import Checkup, Finished
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.insight.doctor.report import SHOWN
from sparkwright.machine.host.survey import Kernel
from sparkwright.plan.causes.cause import Diagnosis
from tests.doctor_score.corpus import Incident
from tests.makers.gpu import gpu

_GIB, _MIB = 1024**3, 1024**2


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


def score(cases: Iterable[Incident]) -> Score:
    """Return how the doctor does."""
    incidents = healthy = first = shown = 0
    alarms, missed = [], []
    for case in cases:
        found = tuple(each.name for each in diagnosis(case))
        if case.cause is None:
            healthy += 1
            alarms += [case.name] if found else []
            continue
        incidents += 1
        right = {case.cause, *case.also}
        shown += bool(right & {*found[:SHOWN]})
        if right & {*found[:1]}:
            first += 1
        else:
            missed.append((case, found))
    return Score(incidents, healthy, first, shown, tuple(alarms), tuple(missed))


def diagnosis(case: Incident) -> list[Diagnosis]:
    """Return what the doctor says of an incident."""
    return diagnose(checkup(case))


def checkup(case: Incident) -> Checkup:
    """Return a Spark as the doctor would find it: what the thread does not tell is sound.

    Readings: `active` (whether the engine runs), `restarts`, `downs`, `kernel`, `driver`,
    `runtimes`, `memory` (total, free, available, in GiB), `cma` (named and free, in
    MiB), `gpu` (MHz, W, per cent busy), `finished` (requests that were cut, and that ended),
    `cpu` (MHz), `nic` (lines of lspci).
    """
    told = dict(case.readings)
    active = told.pop("active", case.cause is None)
    memory = told.pop("memory", (121, 20, 25))
    named, unused = told.pop("cma", (0, 0))
    kept = max(0, int((unused - named) * _MIB))
    clock, power, busy = told.pop("gpu", (2418, 62, 96))
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
        memory=(int(memory[0] * _GIB), int(memory[1] * _GIB), int(memory[2] * _GIB)),
        swapped=0,
        free={"/opt/qwen36": 900 * _GIB, "/var/lib/docker": 900 * _GIB},
        docker="29.6.2",
        runtimes=tuple(told.pop("runtimes", ("io.containerd.runc.v2", "nvidia", "runc"))),
        gpu=gpu(clock, power, busy),
        gpu_inside="",
        downs=told.pop("downs", 0),
        finished=Finished(cut=cut, ended=ended),
        cpu=told.pop("cpu", None),
        nic=tuple(told.pop("nic", ())),
    )
    if told:
        raise ValueError(f"{case.name}: found readings {sorted(told)}; expected those of `checkup`")
    return found
