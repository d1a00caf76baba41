"""What runs for the lab right now: where it is written down, and by whom it may be changed."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from sparkwright.common.local_file import write_file
from tests.clock import patience

# The shard in which this process runs; "" on the machine itself.
SHARD = os.environ.get("SPARKWRIGHT_SHARD", "")
RUN = Path("/run/sparkwright-lab")
# Nothing is mounted there for a shard: what is removed on the machine would be unmounted in it.
STORAGE = Path(f"/var/lib/sparkwright-shards/{SHARD}/storage" if SHARD else f"/var/lib/{RUN.name}")
PROJECT = Path(__file__).parents[2]
FLEET = PROJECT / "inventory/lab.yaml"
KNOWN_HOSTS = RUN / "known_hosts"

_FILE = RUN / "lab.json"
# Outside of all that `down` removes.
_LOCK = Path("/run/lock/sparkwright-lab.lock")


class LabError(Exception):
    """The lab cannot do what was asked; the text says why, and what helps."""


class Process(BaseModel):
    """A process of ours; its start time tells it from a later process of the same pid."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        status = _status(pid)
        return cls(pid=pid, started=status[1] if status else 0)

    def alive(self) -> bool:
        status = _status(self.pid)
        return status is not None and status[0] != "Z" and status[1] == self.started

    def end(self) -> None:
        """End it and the processes of its group by SIGTERM, after 5 s by SIGKILL."""
        if self.alive():
            os.killpg(self.pid, signal.SIGTERM)
            with suppress(LabError):
                wait_for(lambda: not self.alive(), 5, f"process {self.pid} to end")
        self.kill()

    def kill(self) -> None:
        if self.alive():
            os.killpg(self.pid, signal.SIGKILL)
            wait_for(lambda: not self.alive(), 5, f"process {self.pid} to end")


# What the registry serves as the engine image: vLLM's build for CPUs, or what stands in for it.
Engine = Literal["vllm", "stand-in"]

# The two interfaces that one physical fabric port shows.
Twin = Literal["a", "b"]
TWINS: tuple[Twin, Twin] = ("a", "b")


# Whom the cables join: each two Sparks, all by a switch, or three in a ring. Of those "alone",
# wired as pairs are, each serves for itself.
Together = Literal["alone", "pairs", "switch", "ring"]


class Cable(BaseModel):
    """A Spark's end of a fabric cable, with the twins that are `cut`; larger packets vanish."""

    number: int = 0
    cut: frozenset[Twin] = frozenset()
    mtu: int = 9000


class Spark(BaseModel):
    """One virtual Spark: what is in its ports, and what delays and loses frames of its LAN."""

    factory: str = "standard"
    supervisor: Process | None = None
    cables: dict[int, Cable] = Field(default_factory=lambda: {0: Cable()})
    line: Process | None = None


class State(BaseModel):
    """The whole lab; `kernel` has what the machine had in files of /proc/sys."""

    together: Together = "alone"
    engine: Engine = "vllm"
    sparks: dict[str, Spark] = Field(default_factory=dict)
    services: dict[str, Process] = Field(default_factory=dict)
    kernel: dict[Path, str] = Field(default_factory=dict)


def read() -> State | None:
    """Return the state as it was last written; None when no lab was started."""
    return State.model_validate_json(_FILE.read_text()) if _FILE.exists() else None


def write(state: State) -> None:
    """Replace the state's file in one step, since supervisors read it at any time."""
    write_file(_FILE, state.model_dump_json(indent=2))


def require() -> State:
    state = read()
    if state is None:
        raise LabError("no lab is up; start one: python -m tests.lab up")
    return state


@contextmanager
def locked() -> Iterator[None]:
    """Keep others who change the lab waiting, supervisors at their Spark's cables among them."""
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start(name: str, command: Sequence[str]) -> Process:
    """Start a process that leads its own group and outlives this one; it logs to RUN/<name>.log."""
    RUN.mkdir(parents=True, exist_ok=True)
    with (RUN / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _children.append(child)
    return Process.of(child.pid)


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.lab.{name}", *arguments]


def wait_for(
    done: Callable[[], bool], timeout: float, what: str, *, interval: float = 0.02
) -> None:
    timeout = patience(timeout)
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:.0f} s for {what}; logs are in {RUN}")
        time.sleep(interval)


# Kept so that a long-lived parent (pytest) reaps them and Python does not warn of them.
_children: list["subprocess.Popen[bytes]"] = []


def _status(pid: int) -> tuple[str, int] | None:
    """Return the state letter and the start time in clock ticks (proc(5): fields 3 and 22)."""
    for child in _children:
        child.poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[19])
