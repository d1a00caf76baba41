"""How a round is played: scene by scene, and what must hold after each."""

import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.campaign import invariants
from tests.campaign.acts import GATEWAY, GATEWAY_PORT, Run, Stage, running, settings, standbys
from tests.campaign.faults import BLOWS, ENDS
from tests.campaign.invariants import Window, objections
from tests.campaign.plan import ACTS, BROKEN, FAULTS, GROUPS, SPARKS, WHOLE, Round, Scene, Strike
from tests.clock import patience
from tests.driver.client import said
from tests.driver.load import Load, load
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, engines_status, forget
from tests.lab import hub
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import Engine, LabError, Together

# What joins the Sparks of those that serve one model together.
_TOGETHER: dict[str, Together] = {"pair": "pairs", "ring": "ring", "switch": "switch"}
# Seconds that a recovery may take beside 1.5 starts of the engine: to notice, and to boot. It has
# failed when it takes as many times as long as the second number says.
_NOTICE, _PATIENCE = 85, 3
# Seconds after which a run, or a job that it has begun, is given up.
_ENDLESS = 900
# Seconds for what needs no engine: units that end, a gateway that learns of its replicas.
_TIDY = 60
# Seconds after which no client waits any more for an answer that a loss of power has cut off.
_GIVEN_UP = 150
# Seconds after which the Sparks of a group know that they have lost each other.
_SILENCE = 32
# Jobs that are under way, and processes that hang: what watches them has not noticed yet. A standby
# that waits, which the kernel would end first, is looked at when it is to go on.
_BUSY = (
    "systemctl list-units --plain --no-legend --state=active,activating,deactivating 'switch@*' "
    "'weights@*' 'image@*' 'image-build@*' 'image-copy.service'; "
    "for hangs in $(pgrep --runstates T .); do grep -qsx 900 /proc/$hangs/oom_score_adj || "
    "echo $hangs; done"
)
_ACTIVE = "systemctl is-active --quiet vllm@$(basename $(readlink /opt/qwen36/current))"


@dataclass
class Record:
    """The result of a scene; `early`: its run ended before the moment came.

    `taken`: how many standbys have gone on as the engine.
    """

    struck: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    early: bool = False
    taken: int = 0
    status: int | None = None
    recovery: float = 0.0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.seconds:.0f} s", f"served again after {self.recovery:.0f} s"]
        parts += [f"{self.taken} standbys went on"] if self.taken else []
        parts += [f"no {fault}: nothing to hit" for fault in self.missed]
        parts += ["the moment did not come"] if self.early else []
        parts += [f"the run ended with {self.status}"] if self.status else []
        return ", ".join(parts)


class Player:
    def __init__(self, plan: Round, engine: Engine) -> None:
        self._plan, self._engine, self._lab = plan, engine, Lab()
        self._group = plan.topology in GROUPS
        self._loads: list[tuple[Handle, bool, Load]] = []
        self._windows: list[Window] = []
        self._start = 0.0

    def play(self) -> Iterator[tuple[Scene, Record]]:
        """Yield each scene that was played; one in which something does not hold is the last."""
        self._lab.down()
        count = SPARKS[self._plan.topology]
        together = _TOGETHER.get(self._plan.topology, "alone")
        self._lab.up(count, "own-disk", together=together, engine=self._engine)
        # Clients want a last answer, which nobody gives where something does not hold.
        with suppress(AssertionError), ExitStack() as stack:
            if self._plan.standbys:
                stack.enter_context(standbys())
            self._stage = Stage(self._plan.topology, self._lab.sparks(), stack)
            boots = stack.enter_context(invariants.one_boots(self._stage.sparks))
            for scene in self._plan.scenes:
                record, since = Record(), time.monotonic()
                taken = sum(map(_taken, self._stage.sparks))
                try:
                    self._scene(scene, record)
                    if not self._loads:
                        self._open(stack)
                except (Exception, pytest.fail.Exception):
                    record.problems.append(traceback.format_exc())
                record.problems += boots
                record.taken = sum(map(_taken, self._stage.sparks)) - taken
                record.seconds = round(time.monotonic() - since, 1)
                yield scene, record
                if record.problems:
                    return

    def _open(self, stack: ExitStack) -> None:
        """Measure a start of the engines; add the gateway of a fleet; let clients in."""
        stage = self._stage
        for verb in ("stop", "start --no-block"):
            since = time.monotonic()
            for spark in stage.sparks:
                spark.run(f"sudo systemctl {verb} vllm@{current(spark)}", timeout=300)
        assert not self._wait_serving(_ENDLESS)
        self._start = time.monotonic() - since
        doors = [(head, False) for head in stage.heads]
        if stage.topology == "fleet":
            pyinfra(GATEWAY).succeeded()
            stage.deploys.append(GATEWAY)
            in_service = "systemctl show -P StatusText gateway | grep 'lab1, lab2, lab3$'"
            left = _until(lambda: _failing(in_service, stage.sparks[:1]), _TIDY)
            assert not left, "the gateway does not have all replicas in service"
            doors.append((stage.sparks[0], True))
        for spark, gateway in doors:
            port = {"port": GATEWAY_PORT} if gateway else {}
            seen = stack.enter_context(load(spark, self._plan.clients, **port))
            self._loads.append((spark, gateway, seen))

    def _scene(self, scene: Scene, record: Record) -> None:
        stage, before = self._stage, self._stage.declared
        for spark in stage.sparks:
            forget(spark)
        windows = len(self._windows)
        clients = ACTS[scene.act].clients if self._group or scene.act == "restore" else WHOLE
        self._windows.append(Window(time.monotonic(), clients))
        with running(stage.begin(scene)) as run:
            if run and scene.moment:
                record.early = not run.wait_for(scene.moment)
            self._strike(scene, run, record)
            if run:
                record.status = run.end(_ENDLESS)
                record.output.append(run.output)
                record.problems += self._judge(scene, run, record.status)
        hub.clear_faults()
        mended = time.monotonic()
        record.problems += self._settle()
        if run and not record.status and not run.killed and scene.act != "broken switch":
            record.problems += invariants.wrong_release(stage)
        if before and self._heals(scene) and not record.problems:
            record.problems += self._wait_serving(self._bound)
        if scene.act == "broken switch":
            stage.declare(before)
        if run and (record.status or run.killed or scene.act == "broken switch"):
            again = pyinfra(DEPLOY, *settings(scene))
            record.output.append(again.output)
            if again.status:
                record.problems.append(f"a further run failed:\n{again.output[-3000:]}")
        record.problems = record.problems or self._wait_serving(self._bound)
        record.recovery = round(time.monotonic() - mended, 1)
        for window in self._windows[windows:]:
            window.ended = time.monotonic()
        stage.served.append(stage.declared)
        record.problems = record.problems or self._check(record)

    def _strike(self, scene: Scene, run: Run | None, record: Record) -> None:
        """Let the faults strike, each at its time, and end those that last for a while."""
        sparks = self._stage.sparks

        def blow(strike: Strike) -> None:
            spark, clients = sparks[strike.spark], FAULTS[strike.fault].clients
            if self._group and spark != sparks[0]:
                # All live and die together, and the door is on the head.
                clients = min(clients, BROKEN)
            door = sparks[0] if self._group else spark
            self._windows.append(Window(time.monotonic(), clients, door.name))
            kill = strike.fault == "run killed"
            hit = run.kill() if run and kill else BLOWS[strike.fault](spark, strike)
            (record.missed if hit is False else record.struck).append(strike.fault)

        when = time.monotonic()
        todo: list[tuple[float, Callable[[], object]]] = []
        for each in scene.strikes:
            when += each.after
            todo.append((when, partial(blow, each)))
            if each.seconds:
                todo.append((when + each.seconds, partial(ENDS[each.fault], sparks[each.spark])))
        for at, action in sorted(todo, key=lambda each: each[0]):
            time.sleep(max(0.0, at - time.monotonic()))
            action()

    def _settle(self) -> list[str]:
        """Wait until all Sparks are up, and nothing is under way; return what goes on for ever."""
        for spark in self._stage.sparks:
            with suppress(LabError):
                spark.wait_ready(_ENDLESS)
        if self._group:
            time.sleep(_SILENCE)
        # One that reboots answers until its sshd is stopped.
        idle = f'test "$(systemctl is-system-running)" != stopping && test -z "$({_BUSY})"'
        return _until(lambda: _failing(idle, self._stage.sparks), _ENDLESS)

    def _judge(self, scene: Scene, run: Run, status: int | None) -> list[str]:
        """Return what a run has lost without a word."""
        if status is None:
            return [f"the run did not end within {_ENDLESS} s"]
        if "Traceback" in run.output or not (run.output.strip() or run.killed):
            return [f"the run ended with a traceback, or without a word:\n{run.output[-3000:]}"]
        broken = scene.act == "broken switch" and status == 0
        return ["a release that cannot start was switched to"] if broken else []

    def _heals(self, scene: Scene) -> bool:
        """Tell whether all must serve now by themselves.

        Two that committed while one of them died may serve different releases: a run mends that.
        """
        apart = self._group and len({current(spark) for spark in self._stage.sparks}) > 1
        promised = all(FAULTS[strike.fault].heals for strike in scene.strikes)
        return promised and scene.act != "restore" and not apart

    def _check(self, record: Record) -> list[str]:
        stage = self._stage
        return [
            *_until(lambda: list(invariants.drift(stage)), _TIDY),
            *invariants.second_run(stage),
            *invariants.wrong_release(stage),
            *_until(lambda: list(invariants.leftovers(stage)), _TIDY),
            *invariants.beyond_plan(stage),
            *invariants.secrets(stage, record.output),
            *self._answers(),
        ]

    def _answers(self) -> list[str]:
        """Return what clients saw, and should not have; some of each door must have an answer."""
        problems = _until(
            lambda: [
                f"no answer of {spark.name}" for spark, _, seen in self._loads if not seen.answers
            ],
            patience(_GIVEN_UP),
        )
        for spark, gateway, seen in self._loads:
            answers = seen.answers[:]
            del seen.answers[: len(answers)]
            bad = list(objections(spark.name, answers, self._windows, gateway=gateway))
            problems += [f"{len(bad)} times: {bad[0]}"] if bad else []
        return problems

    @property
    def _bound(self) -> float:
        return _PATIENCE * (1.5 * self._start + _NOTICE)

    def _wait_serving(self, timeout: float) -> list[str]:
        stage = self._stage

        def silent() -> list[str]:
            waiting = _failing(_ACTIVE, stage.sparks)
            return waiting or [head.name for head in stage.heads if said(head, timeout=20) is None]

        if not (left := _until(silent, timeout)):
            return []
        status = "\n".join(engines_status(spark) for spark in stage.sparks)
        return [f"not serving within {timeout:.0f} s: {left}\n{status}"]


def _taken(spark: Handle) -> int:
    """Return how many standbys of a Spark have gone on, as far as its journal goes back."""
    told = "sudo journalctl --no-pager -u 'vllm@*' | grep -c 'its standby goes on as the engine'"
    with suppress(subprocess.TimeoutExpired):
        return int(spark.run(told, check=False).stdout or 0)
    return 0


def _failing(command: str, sparks: list[Handle]) -> list[str]:
    return [spark.name for spark in sparks if spark.run(command, check=False).returncode]


def _until(problems: Callable[[], list[str]], timeout: float) -> list[str]:
    deadline = time.monotonic() + timeout
    while (left := problems()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return left
