"""What a person does with the Sparks of a round: what is declared, and the run that makes it so."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.campaign.plan import GROUPS, Scene, Topology
from tests.driver.declared import Change, recipe, seed
from tests.driver.product import DEPLOY, PROJECT, ROLLOUT, command, env
from tests.lab.spark import Handle
from tests.lab.state import FLEET
from tests.makers.models import replaced

GATEWAY, GATEWAY_PORT = "deploys/gateway.py", 4000
# Seconds: one that does not start in this time on a busy machine never will.
_QUICKLY: Change = ("start_timeout: 300", "start_timeout: 120")
_DRAIN = 20
_STANDBY, _SETTLED = PROJECT / "files/host/engine/standby.py", ("= 60.0, 5.0", "= 2.0, 5.0")
# All that a Spark has of a model and its engine.
_LOSE = "systemctl stop 'vllm@*'; docker system prune --all --force; rm -rf /opt/qwen36/tiny@*"


@dataclass
class Stage:
    """The Sparks of a round, a group's head first; `deploys` have run, and change nothing again."""

    topology: Topology
    sparks: list[Handle]
    recipes: ExitStack
    deploys: list[str] = field(default_factory=lambda: [DEPLOY])
    declared: str = ""
    served: list[str] = field(default_factory=list)
    _made: int = 0

    @property
    def heads(self) -> list[Handle]:
        return self.sparks[:1] if self.topology in GROUPS else self.sparks

    def declare_new(self, act: str) -> None:
        self._made += 1
        name = f"campaign{self._made}"
        base, changes = differences(act, name, self._made)
        self.declare(self.recipes.enter_context(recipe(name, *changes, base=base)))

    def declare(self, name: str) -> None:
        self.declared = name
        fleet = yaml.safe_load(FLEET.read_text())
        for replica in fleet["replicas"].values():
            replica["recipe"] = name
        if self.topology == "fleet":
            fleet["gateway"] = {"spark": self.sparks[0].name, "port": GATEWAY_PORT}
        FLEET.write_text(yaml.safe_dump(fleet, sort_keys=False))

    def begin(self, scene: Scene) -> list[str]:
        """Have an act begin; return the words of the run that it takes, none without one."""
        match scene.act:
            case "serve":
                return []
            case "rollback":
                self.declare([name for name in self.served if name != self.declared][-1])
                return ["deploys/rollback.py", *settings(scene)]
            case "restore":
                spark = self.sparks[scene.variant % len(self.sparks)]
                spark.run(f'sudo sh -c "{_LOSE}"', timeout=300)
            case act:
                self.declare_new(act)
        if scene.act == "rollout":
            return [*ROLLOUT, *settings(scene), "--soak", "2"]
        return [DEPLOY, *settings(scene)]


def differences(act: str, name: str, number: int) -> tuple[str, list[Change]]:
    """Return the recipe from which an act's new one is made, and how the new one differs."""
    if act == "build":
        return "lab-built", [("NAME: lab-built", f"NAME: {name}"), ('UNITS: "12"', 'UNITS: "8"')]
    unlike = ("  seed: 0", f"  unknown-flag: {number}") if act == "broken switch" else seed(number)
    return "lab-tiny", [_QUICKLY, unlike]


@contextmanager
def standbys() -> Iterator[None]:
    """Have what is deployed wait beside its engines, and soon; the tree is the shard's own."""
    text = _STANDBY.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKWRIGHT_LAB_STANDBY", "auto")
        _STANDBY.write_text(replaced(text, _SETTLED))
        try:
            yield
        finally:
            _STANDBY.write_text(text)


@dataclass
class Run:
    process: "Popen[bytes]"
    log: Path
    killed: bool = False

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str) -> bool:
        """Wait until it has said something; False where it ends without."""
        while text not in self.output:
            if self.process.poll() is not None:
                return text in self.output
            time.sleep(0.1)
        return True

    def kill(self) -> bool:
        """Kill it, and the runs of a rollout; return whether it was still at work."""
        self.killed = self.process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.killed

    def end(self, timeout: float) -> int | None:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


@contextmanager
def running(words: list[str]) -> Iterator[Run | None]:
    if not words:
        yield None
        return
    line = [*([] if words[0] == ROLLOUT[0] else command("inventory/lab.py")), *words, "-y"]
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = Popen(
                line,
                cwd=PROJECT,
                env=env(),
                stdin=DEVNULL,
                stdout=file,
                stderr=STDOUT,
                start_new_session=True,
            )
        run = Run(process, log)
        try:
            yield run
        finally:
            run.kill()
            process.wait()


def settings(scene: Scene) -> list[str]:
    return ["--data", f"trial_seconds={scene.trial}", "--data", f"drain_seconds={_DRAIN}"]
