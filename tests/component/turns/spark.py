"""A Spark on which models take turns: doors and loop are real, systemd and engines stand-ins."""

import json
import signal
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from host.engine import places
from tests.clock import patience
from tests.component.door.running import PATH, FakeEngine, FakeServer, Running, opened
from tests.component.servers import serving
from tests.makers.door import KEY
from tests.programs import changed_program

HOLD = 300
# Shorter times, our systemctl, and doors in other places: the rest is the program.
_PROGRAM = """
import json, os, socket, sys
from pathlib import Path
from host.door import door
from host.engine import places
from host.engine.switch import candidate, units
from host.engine.turns import decision, loop, seat
address, changed = sys.argv.pop(1), json.loads(sys.argv.pop(1))
decision.Contender.is_quiet.__defaults__ = (changed.pop("QUIET"),)
candidate.DISK, candidate.DOCKER = changed.pop("DISK"), Path("/none")
candidate.CONTAINERD = candidate.DOCKER
for name, value in changed.items():
    for module in (loop, seat):
        if hasattr(module, name):
            setattr(module, name, value)
places.RUN = Path(address).parent / "run"

def systemctl(*words):
    with socket.socket(socket.AF_UNIX) as systemd:
        systemd.connect(address)
        systemd.sendall(json.dumps(words).encode() + b"\\n")
        return systemd.makefile().read()

units.systemctl, units.reset_failed = systemctl, lambda unit: systemctl("reset-failed", unit)
seat.Door = lambda place: door.Door(place, place / "run")
loop.command()
"""
TIMES: dict[str, Any] = {"LOOK": 0.1, "QUIET": 0.2, "MARGIN": 0, "DISK": 0}


@dataclass
class Model:
    """One that takes turns, or does not, and how its engine behaves.

    Attributes:
        size: in units of the Spark's memory.
        rank: 1 for the worker of a pair, which has no door, and runs always.
        faults: of its next starts, each "" (well), "killed", "hangs" or "fails"; then all are well.
    """

    size: int
    on_demand: bool = True
    pinned: bool = False
    turn: float = 3
    rank: int = 0
    hold: int | None = HOLD
    faults: list[str] = field(default_factory=list)


class _Engine(FakeEngine):
    server: "_Server"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != PATH:
            raise AssertionError(self.path)
        told = {"engine": self.server.name, "began": time.monotonic()}
        with self.server.counting:
            self.server.flying += 1
        time.sleep(json.loads(body).get("seconds", 0))
        with self.server.counting:
            self.server.flying -= 1
        self.answer(200, told | {"ended": time.monotonic()})


class _Server(FakeServer):
    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root, name)
        self.RequestHandlerClass = _Engine  # type: ignore[assignment]
        self.flying, self.counting, self.healthy = 0, threading.Lock(), False


class Unit:
    """The unit of an engine, as systemd has it."""

    def __init__(self, root: Path, release: str, model: Model) -> None:
        self.state, self.due, self.fault = "inactive", 0.0, ""
        self.masked = False
        self.model, self._root, self._release = model, root, release
        self._server: _Server | None = None
        self._life = ExitStack()

    @property
    def flying(self) -> int:
        return self._server.flying if self._server else 0

    def start(self, seconds: float) -> None:
        self.fault = self.model.faults.pop(0) if self.model.faults else ""
        self._server = _Server(self._root, self._release)
        self._life.enter_context(serving(self._server))
        took = {"killed": seconds / 2, "hangs": 3 * seconds}.get(self.fault, seconds)
        self.state, self.due = "activating", time.monotonic() + took

    def end(self, state: str) -> None:
        self._life.close()
        self._server, self.state = None, state

    def stop(self, seconds: float) -> None:
        if self.state not in ("inactive", "failed"):
            self.state, self.due = "deactivating", time.monotonic() + seconds

    def live(self, seconds: float) -> None:
        """Let what is due happen."""
        if self.state in ("inactive", "failed", "active") or time.monotonic() < self.due:
            return
        if self.state == "deactivating":
            self.end("inactive")
        elif self.fault == "fails":
            self.end("failed")
        elif self.fault:
            # systemd tries it again.
            self.end("activating")
            self.start(seconds)
        else:
            assert self._server
            self._server.healthy, self.state = True, "active"

    def shown(self, name: str) -> str:
        load = "masked" if self.masked else "loaded"
        said = "vLLM refuses its command line" if self.state == "failed" else ""
        return f"Id={name}\nActiveState={self.state}\nLoadState={load}\nStatusText={said}\nJob=\n"


class Spark:
    """Six models or so, and a memory that holds some of them.

    Attributes:
        log: what systemd was told, with the moment.
        exceeded, cut: moments in which the memory was, and answers that a stop has cut.
        is_silent: systemd tells nothing of its units, as while it exchanges itself for a newer one.
    """

    def __init__(self, root: Path, models: Mapping[str, Model], total: int, start: float) -> None:
        self.root, self.models, self.total, self.start = root, models, total, start
        self.doors: dict[str, Running] = {}
        self.units: dict[str, Unit] = {}
        self.log: list[tuple[float, str]] = []
        self.exceeded: list[str] = []
        self.cut = 0
        self.is_silent = False
        self._lock, self._over = threading.RLock(), threading.Event()
        self._loop: subprocess.Popen[bytes] | None = None
        self._address = root.parent / "systemd"

    @property
    def acts(self) -> list[str]:
        return [act for _, act in self.log if not act.startswith("reset-failed")]

    @property
    def _report(self) -> Path:
        return self._address.parent / "run/turns.json"

    @property
    def told(self) -> dict[str, Any]:
        """The report of the loop on itself."""
        found: dict[str, Any] = json.loads(self._report.read_text())
        return found

    @property
    def has_looked(self) -> bool:
        """True once the present loop has begun its work."""
        return self._report.exists()

    key = KEY

    def place(self, name: str) -> places.Room:
        """The words between a pair's worker and its Spark about its place."""
        found, run = places.Room(self.root, f"{name}-1"), self._address.parent / "run"
        for word in ("asks", "go", "back"):
            setattr(found, word, run / getattr(found, word).name)
        return found

    def said(self) -> str:
        """The log of the loop."""
        return (self.root / "loop.log").read_text()

    def lay(self, stack: ExitStack) -> None:
        """Have all files, and the doors."""
        (self.root / "manifests").mkdir(parents=True)
        replicas = {}
        for number, (name, model) in enumerate(self.models.items()):
            seat = name if number else ""
            place = self.root / "seats" / seat if seat else self.root
            folder = self.root / "releases" / f"{name}-1"
            folder.mkdir(parents=True)
            (folder / "unit.json").write_text(json.dumps({"start_timeout": 60, "seat": seat}))
            place.mkdir(parents=True, exist_ok=True)
            for each in ("releases", "manifests") if seat else ():
                (place / each).symlink_to(self.root / each)
            (place / "current").symlink_to(f"releases/{name}-1")
            hold = {"hold_seconds": model.hold or 0}
            if not model.rank:
                self.doors[name] = stack.enter_context(opened(place, keys=[KEY], **hold))
            self.units[name] = Unit(place, f"{name}-1", model)
            replicas[name] = {
                **{"seat": seat, "on_demand": model.on_demand, "pinned": model.pinned},
                **{
                    "grouped": bool(model.rank),
                    "rank": model.rank,
                    "size": model.size,
                    "spare": 1,
                    "turn": model.turn,
                },
                **{"idle": None, "hold": model.hold},
            }
            if not model.on_demand:
                self.units[name].start(0)
        told = {"total": self.total + 1, "drain": 30, "replicas": replicas}
        (self.root / places.MANIFEST).write_text(json.dumps(told))

    def loop(self, **times: Any) -> None:
        """Start the loop; kill the one before."""
        self.kill()
        self._report.unlink(missing_ok=True)
        words = (self._address, json.dumps(TIMES | times), self.root)
        with (self.root / "loop.log").open("ab") as log:
            self._loop = subprocess.Popen(changed_program(_PROGRAM, *words), stderr=log)

    def kill(self) -> None:
        if self._loop:
            self._loop.send_signal(signal.SIGKILL)
            self._loop.wait()

    def lose_power(self) -> None:
        """Everything ends at once, and what boots is there again; the loop is not, yet."""
        self.kill()
        with self._lock:
            for unit in self.units.values():
                unit.end("inactive")
        for door in self.doors.values():
            door.stop()
        for path in (self._address.parent / "run").glob("*"):
            path.unlink()
        for name, door in self.doors.items():
            door.start()
            if not self.models[name].on_demand:
                self.units[name].start(0)

    def ask(self, name: str, seconds: float = 0) -> "Answer":
        """Ask a model, through its door."""
        came, body = time.monotonic(), json.dumps({"seconds": seconds}).encode()
        status, said, head = self.doors[name].ask("POST", PATH, body=body)
        ended = time.monotonic()
        again = int(head.get("Retry-After") or 0)
        return Answer(name, came, said.get("began", ended), ended, status, again, said)

    def systemctl(self, verb: str, *words: str) -> str:
        names = {each: each.removeprefix("vllm@").partition("-")[0] for each in words}
        units = {each: self.units[name] for each, name in names.items() if name in self.units}
        with self._lock:
            if verb == "show":
                told = "\n".join(unit.shown(each) for each, unit in units.items())
                return "" if self.is_silent else told
            for each, unit in units.items():
                self.log.append((time.monotonic(), f"{verb} {names[each]}"))
                if verb == "start" and unit.state in ("inactive", "failed"):
                    unit.start(self.start)
                elif verb == "stop":
                    self.cut += unit.flying
                    unit.stop(self.start / 4)
                elif verb == "reset-failed" and unit.state == "failed":
                    unit.state = "inactive"
            self._check()
        return ""

    def _check(self) -> None:
        taken = {
            name: each
            for name, each in self.units.items()
            # A worker that waits for its head has no container.
            if (self.place(name).go.exists() if each.model.rank else each.state not in _OFF)
        }
        if sum(each.model.size for each in taken.values()) > self.total:
            self.exceeded.append(" ".join(taken))

    def live(self) -> None:
        """Let time pass for all units."""
        while not self._over.wait(0.01):
            with self._lock:
                for unit in self.units.values():
                    unit.live(self.start)
                self._check()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have systemd."""
        spark = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # The loop may be killed before it has its answer.
                with suppress(OSError):
                    told = spark.systemctl(*json.loads(self.rfile.readline()))
                    self.wfile.write(told.encode())

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        life = threading.Thread(target=self.live)
        life.start()
        try:
            with serving(Server(str(self._address), Handler)):  # type: ignore[arg-type]
                yield
                self.kill()
        finally:
            self.kill()
            self._over.set()
            life.join()
            for unit in self.units.values():
                unit.end("inactive")


_OFF = ("inactive", "failed")


@dataclass(frozen=True)
class Answer:
    """One request: when it came, its engine began, and it was answered; and how."""

    name: str
    came: float
    began: float
    ended: float
    status: int
    again: int
    said: Mapping[str, Any]

    @property
    def message(self) -> str:
        return str(self.said.get("error", {}).get("message", ""))


@contextmanager
def spark_of(
    models: Mapping[str, Model],
    total: int,
    start: float = 0.3,
    disk: Path | None = None,
    **times: Any,
) -> Iterator[Spark]:
    """Have a Spark with these models, and its loop, until the block ends."""
    with ExitStack() as stack:
        # A path of a socket has 107 characters at most, and a run of several workers a folder more.
        folder = disk or Path(stack.enter_context(TemporaryDirectory(prefix="turns")))
        spark = Spark(folder / "root", models, total, start)
        spark.lay(stack)
        stack.enter_context(spark.running())
        spark.loop(**times)
        yield spark


class Clients:
    """Threads that ask, and all answers that came."""

    def __init__(self, spark: Spark) -> None:
        self.answers: list[Answer] = []
        self._spark = spark
        self._threads: list[threading.Thread] = []

    def ask(self, *asked: tuple[str, float, float]) -> None:
        """Have one client more: it asks for a model, for so many seconds, and pauses then."""
        thread = threading.Thread(target=self._ask, args=(asked,))
        self._threads.append(thread)
        thread.start()

    def _ask(self, asked: Sequence[tuple[str, float, float]]) -> None:
        for name, seconds, pause in asked:
            # The end of a test may come first.
            with suppress(OSError):
                self.answers.append(self._spark.ask(name, seconds))
            time.sleep(pause)

    @property
    def are_busy(self) -> bool:
        return any(each.is_alive() for each in self._threads)

    def end(self) -> list[Answer]:
        """Wait for all answers."""
        for thread in self._threads:
            thread.join(timeout=patience())
            assert not thread.is_alive()
        return self.answers
