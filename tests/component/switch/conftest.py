"""A Spark on which the program of a switch runs for real; systemctl and docker are stand-ins."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from sparkwright.plan.release.container import CONTAINER_OPTIONS
from tests.clock import patience
from tests.component.servers import until
from tests.component.switch import systemctl
from tests.makers.release import release as make_release
from tests.programs import changed_program, script

OLD, NEW, OTHER = "tiny-00000000", "tiny-11111111", "tiny-22222222"

# Shorter times, a folder of links, our systemctl, and a door that notes what it is told: the rest
# is the program.
_PROGRAM = """
import json, subprocess, sys
from pathlib import Path
from host.door import door
from host.engine import places
from host.engine.switch import candidate, course, units
from tests.component.switch import systemctl
state, changed = Path(sys.argv.pop(1)), json.loads(sys.argv.pop(1))
for name, value in changed.items():
    for module in (course, candidate):
        if hasattr(module, name):
            setattr(module, name, value)
units.WANTS, places.RUN = state / "wants", state / "run"
run = subprocess.run

def asked(command, **options):
    if command[0] != "systemctl":
        return run(command, **options)
    return subprocess.CompletedProcess(command, 0, systemctl.call(state, *command[1:]), "")

subprocess.run = asked

class Door(door.Door):
    def __init__(self, root):
        super().__init__(root, state / "no-door")

    def busy(self, release):
        file = state / f"busy-{release}"
        return int(file.read_text()) if file.exists() else 0

def noted(name):
    call = getattr(door.Door, name)
    def wrapped(self, *words):
        if (state / f"door-{name}-fails").exists():
            raise door.DoorError(f"{name} failed")
        with (state / "log").open("a") as log:
            log.write(" ".join(["door", name, *map(str, words)]) + "\\n")
        return call(self, *words)
    return wrapped

for name in ("offer", "prefer", "hold", "forget"):
    setattr(Door, name, noted(name))
course.Door = Door
course.command()
"""
_TIMES = {"LOOK": 0.02, "MARGIN": 0, "HEAD": 0.5, "DISK": 0}
# Seconds of a drain or a trial that a test ends.
LONG = patience()
# Seconds of a start that comes to nothing, and of a trial that ends by itself.
BRIEF = ceil(patience(1))
BESIDE = {"beside": True}
_DOCKER = """#!/bin/sh
case "$*" in
  *-standby)
    echo "$*" >>"$STATE/log"
    [ ! -e "$STATE/pid" ] || kill "$(cat "$STATE/pid")" 2>/dev/null ;;
esac
case "$1 $2" in
  "image inspect") [ -e "$STATE/no-image" ] || echo sha256:1234 ;;
  "run --rm")
    case "$*" in *" 0:0 "*) cat "$STATE/closed" 2>/dev/null; exit 0 ;; esac
    echo "$*" >"$STATE/proof"
    [ ! -e "$STATE/no-gpu" ] || { echo 'could not select device driver' >&2; exit 1; } ;;
esac
"""


class Spark:
    """One Spark: its root folder, and the state of its stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "root", folder / "state"
        for name in ("bin", "units", "wants"):
            (self.state / name).mkdir(parents=True)
        for name in ("releases", "manifests", "jobs", "state", "tiny"):
            (self.root / name).mkdir(parents=True)
        (self.root / "tiny/.sparkwright.json").write_text("{}")
        script(self.state / "bin/docker", _DOCKER)
        self.process: subprocess.Popen[str] | None = None

    def release(self, name: str, how: str = "well", rank: int = 0, pair: bool = False) -> None:
        """Lay a release down, and say how its engine behaves."""
        folder = self.root / "releases" / name
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin/engine").touch()
        seconds = BRIEF if how == "never" else patience()
        unit = {
            "start_timeout": seconds,
            "gpu": list(CONTAINER_OPTIONS),
            "rank": rank,
            "fabric": [["a", "b"], ["c", "d"]] if pair else [],
        }
        (folder / "unit.json").write_text(json.dumps(unit))
        content = {"checkpoints": {"model": {"folder": "tiny"}}}
        (folder / "release.json").write_text(json.dumps(content))
        (folder / "run").write_text(make_release().files["run"])
        self.behaves(name, how)

    def unit(self, name: str, **changes: Any) -> None:
        """Have a release say other things of its engine."""
        file = self.root / f"releases/{name}/unit.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    def behaves(self, name: str, how: str) -> None:
        (self.state / f"{name}.how").write_text(how)

    def serves(self, name: str = OLD) -> None:
        """Have a release that serves, boots, and is behind the door."""
        self.release(name)
        self.systemctl("start", name)
        (self.state / f"wants/vllm@{name}.service").symlink_to("/etc/vllm@.service")
        (self.root / "current").symlink_to(f"releases/{name}")
        (self.root / "state/history").write_text(f"1700000000 {name}\n")
        until(lambda: self.active(name))
        self.forget()

    def start(self, name: str = NEW, orders: Any = (), word: str = "", **changed: Any) -> None:
        """Start a switch as its unit does."""
        told = {"beside": False, "trial": 0.1, "drain": 0.2, "door": True} | dict(orders)
        (self.root / f"manifests/switch@{name}.json").write_text(json.dumps(told))
        words = [self.state, json.dumps(_TIMES | changed), self.root, name, *word.split()]
        self.process = subprocess.Popen(
            changed_program(_PROGRAM, *words),
            env={"PATH": f"{self.state}/bin:{os.environ['PATH']}", "STATE": str(self.state)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> int:
        """Wait for the end of the switch; return its exit status."""
        assert self.process
        output, _ = self.process.communicate(timeout=patience())
        assert "Traceback" not in output, output
        return self.process.returncode

    def switch(self, name: str = NEW, orders: Any = (), **changed: Any) -> int:
        """Make a switch; return its exit status."""
        self.start(name, orders, **changed)
        return self.end()

    def wait_phase(self, phase: str) -> None:
        until(lambda: self.report.get("phase") == phase)

    def look_on(self) -> None:
        """Wait for something that should not happen, by the clock of a switch that looks."""
        looks = self.looks
        until(lambda: self.looks >= looks + 10)

    def signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def systemctl(self, verb: str, name: str) -> str:
        return systemctl.call(self.state, verb, f"vllm@{name}.service")

    def active(self, name: str) -> bool:
        return "ActiveState=active" in self.systemctl("show", name)

    @property
    def running(self) -> list[str]:
        """The releases whose engine runs."""
        names = [path.stem for path in (self.state / "units").iterdir()]
        return sorted(name for name in names if self.active(name))

    @property
    def boots(self) -> list[str]:
        """The releases that would be started by a boot."""
        names = [path.name for path in (self.state / "wants").iterdir()]
        return sorted(name.removeprefix("vllm@").removesuffix(".service") for name in names)

    @property
    def current(self) -> str:
        return (self.root / "current").readlink().name

    @property
    def history(self) -> list[str]:
        return (self.root / "state/history").read_text().split()[1::2]

    @property
    def report(self) -> dict[str, Any]:
        """What the switch said last."""
        for path in (self.root / "jobs").glob("switch@*.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {}

    def acts(self) -> list[str]:
        """What changed something, in order, without the looks."""
        looks = ("show", "list-units", "daemon-reload", "reset-failed", "unmask")
        return [line.replace(".service", "") for line in self._log if not line.startswith(looks)]

    @property
    def looks(self) -> int:
        """How often a unit was looked at."""
        return sum(line.startswith("show") for line in self._log)

    @property
    def _log(self) -> list[str]:
        path = self.state / "log"
        return path.read_text().splitlines() if path.exists() else []

    def forget(self) -> None:
        """Begin the log anew."""
        (self.state / "log").unlink(missing_ok=True)

    @property
    def door(self) -> list[str]:
        """The engines behind the door, the preferred one first; "held" where none gets any."""
        text = (self.root / "door/engines.cfg").read_text()
        servers = text.partition("backend patient")[0].split("    server ")[1:]
        choice = dict(
            line.split(" ", 1) for line in (self.root / "door/choice.map").read_text().splitlines()
        )
        names = sorted(
            (server.split()[0] for server in servers), key=lambda name: name != choice["first"]
        )
        return [*names, *(["held"] if choice["hold"] == "yes" else [])]

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
        for path in (self.state / "units").glob("*.json"):
            self.systemctl("stop", path.stem)


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    """A Spark on which nothing serves."""
    spark = Spark(tmp_path)
    yield spark
    spark.close()


@pytest.fixture
def served(spark: Spark) -> Spark:
    spark.serves()
    spark.release(NEW)
    return spark


def is_new(spark: Spark) -> None:
    """Nothing but the new release is left."""
    assert spark.running == spark.boots == [NEW]
    # systemd has heard of it: it starts what it knew before as long as nobody tells it.
    assert json.loads((spark.state / "known-boots").read_text()) == [f"vllm@{NEW}.service"]
    assert spark.current == spark.history[-1] == NEW
    assert spark.door == [NEW]
    assert not (spark.root / "state/switch.json").exists()
    assert spark.report["phase"] == "done"


def is_old(spark: Spark) -> None:
    """The previous release serves as if nothing had been."""
    assert spark.running == spark.boots == [OLD]
    assert spark.current == spark.history[-1] == OLD
    assert not (spark.root / "state/switch.json").exists()
    assert spark.report["phase"] == "failed"
    assert (spark.report["previous"], spark.report["restored"]) == (OLD, True)
