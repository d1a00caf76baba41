"""A door that runs, what asks it, and what stands in the place of its engines."""

import getpass
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from host.common.seat import SOCKETS
from host.door.door import Door
from sparkwright.common.render import render
from sparkwright.door.door import DoorPlan
from tests.clock import patience
from tests.component.servers import QuietHandler, free_port, serving, until
from tests.component.socket_server import SocketServer
from tests.makers.door import FILES, KEY, plan

haproxy = pytest.mark.skipif(
    not shutil.which("haproxy") or getpass.getuser() != "root",
    reason="needs root and Debian's package haproxy",
)


class FakeEngine(QuietHandler):
    """Answers as little of an engine as a door can see; says in each answer who it is."""

    protocol_version = "HTTP/1.1"
    server: "FakeServer"

    def do_GET(self) -> None:
        asked = {"engine": self.server.name, "path": self.path, "head": dict(self.headers)}
        self.answer(200 if self.server.healthy or self.path != "/health" else 503, asked)

    do_HEAD = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # As vLLM's server does with a client that has gone.
            self.close_connection = True
            return
        if self.path != "/v1/stream":
            self.answer(200, {"engine": self.server.name, "path": self.path, "size": len(body)})
            return
        pieces, pause = json.loads(body)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        time.sleep(self.server.pause)
        try:
            for _ in range(pieces):
                if pause is None:
                    self.server.turns.acquire(timeout=patience())
                self.wfile.write(
                    b"%x\r\n%b\r\n" % (len(self.server.name), self.server.name.encode())
                )
                time.sleep(pause or 0)
            if self.server.dies:
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.server.aborted += 1

    def answer(self, status: int, content: dict[str, Any]) -> None:
        self.server.paths[self.path] += 1
        text = json.dumps(content).encode()
        time.sleep(self.server.pause)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


class FakeServer(SocketServer):
    """An engine behind the door of a seat."""

    # As many as a door may have: Python's own are five.
    request_queue_size = 1024

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root, name, FakeEngine)
        self.name = name
        self.paths: Counter[str] = Counter()
        self.healthy = True
        self.pause = 0.0
        self.turns = threading.Semaphore(0)
        self.aborted = 0
        self.dies = False

    def handle_error(self, *_: Any) -> None:
        """A health check leaves without a word."""


PATH, HOLD = "/v1/chat/completions", 300
KEYED = {"Authorization": f"Bearer {KEY}"}
# Starts an engine by its name.
Engines = Callable[[str], FakeServer]


class Running:
    """A door that runs: haproxy, as door.service starts it.

    Attributes:
        port: where it listens.
        exporter: where it looks for a node exporter.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port, self.exporter = free_port(), free_port()
        self.plan = plan(self.port)
        self.door = Door(root, root / "run")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def master(self) -> int:
        assert self._process
        return self._process.pid

    def lay(self, of: DoorPlan) -> None:
        """Write the files, as a deploy does."""
        self.plan = of
        self.door.prepare()
        for name, text in of.files(str(self.root)).items():
            if text is not None:
                text = text.replace("127.0.0.1:9100", f"127.0.0.1:{self.exporter}")
                (self.root / "door" / name).write_text(text)

    def start(self, *within: str) -> None:
        """Start it, by a command that starts others where there is one."""
        self.door.prepare()
        (self.root / "run").mkdir(exist_ok=True)
        (self.root / SOCKETS).mkdir(parents=True, exist_ok=True)
        unit = render(FILES / "door.service", root=self.root)
        (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
        # Without systemd there is nobody to be told: -W in the place of -Ws.
        command = line.replace(" -Ws ", " -W ")
        command = command.replace("/run/door/", f"{self.root}/run/")
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen([*within, *command.split()], stdout=log, stderr=log)
        until(lambda: bool(self.door.haproxy.running()))
        self.door.sync()

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=patience())
            self._process = None

    def reload(self) -> None:
        self.door.reload(self.master)

    def change(self, **settings: Any) -> None:
        """Have other settings in force, as a deploy does."""
        self.lay(plan(self.port, **settings))
        self.reload()

    def client(self, source: str = "127.0.0.1") -> http.client.HTTPConnection:
        return http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=patience(), source_address=(source, 0)
        )

    def resting(self) -> http.client.HTTPConnection:
        """Return a connection that was answered, and that does not silently connect anew."""
        client = self.client()
        client.request("GET", "/v1/models", headers=KEYED)
        assert client.getresponse().read()
        client.auto_open = 0
        return client

    def ask(
        self,
        method: str,
        path: str,
        key: str | None = KEY,
        body: bytes | None = None,
        source: str = "127.0.0.1",
        **head: str,
    ) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        """Ask for a path as it is; return status, JSON and head of the answer."""
        client = self.client(source)
        head |= {"Authorization": f"Bearer {key}"} if key is not None else {}
        if method == "POST" and body is None:
            body = b"{}"
        client.request(method, path, body, head)
        with client.getresponse() as answer:
            text = answer.read()
            try:
                return answer.status, json.loads(text), answer.headers
            except ValueError:
                return answer.status, {"text": text.decode()}, answer.headers

    def status(self, *request: Any, **head: Any) -> int:
        return self.ask(*request, **head)[0]

    def serves(self) -> str | None:
        """Which engine answers; None if none does."""
        found = self.ask("GET", "/v1/models")[1].get("engine")
        return None if found is None else str(found)


@contextmanager
def opened(root: Path, *within: str, **settings: Any) -> Iterator[Running]:
    """Have a door with these settings, until the block ends; `within` is a command that starts it.

    With neither it has those of tests/makers/door.py.
    """
    door = Running(root)
    door.lay(plan(door.port, **settings))
    try:
        door.start(*within)
        yield door
    finally:
        door.stop()


def asked(door: Running, request: str) -> bytes:
    """Send what no client library would; return all that comes back."""
    with socket.create_connection(("127.0.0.1", door.port), timeout=patience()) as client:
        client.sendall(request.replace("\r\n", "\r\nConnection: close\r\n", 1).encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


@contextmanager
def stream(
    door: Running, pieces: int, pause: float | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Begin a stream of so many pieces.

    Args:
        pause: seconds after each; without it, the engine waits for its turn before each.
    """
    client = door.client()
    client.request("POST", "/v1/stream", json.dumps([pieces, pause]), KEYED)
    answer = client.getresponse()
    assert answer.status == 200
    try:
        yield answer
    finally:
        answer.close()
        client.close()


class Load:
    """Clients that ask without a pause: each time anew, on a kept connection, and for streams.

    Attributes:
        answers: how many came from each engine.
        streams: how many brought each text.
        failures: what went wrong.
    """

    def __init__(self, door: Running) -> None:
        self.answers: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()
        self.failures: list[Exception] = []
        self._door = door
        self._kept = door.client()
        self._over = threading.Event()
        asking = [*[self._anew] * 2, *[self._stream] * 4, self._keep]
        self._rounds = [0] * len(asking)
        self._threads = [
            threading.Thread(target=self._repeat, args=each) for each in enumerate(asking)
        ]
        for thread in self._threads:
            thread.start()

    def goes_on(self) -> None:
        """Wait until each client has begun and ended a request from now on."""
        # The one in flight began before.
        wanted = [rounds + 2 for rounds in self._rounds]
        until(lambda: bool(self.failures) or all(map(int.__ge__, self._rounds, wanted)))

    def end(self) -> None:
        """Let each client end what it has begun."""
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=patience())
        self._kept.close()

    def _repeat(self, number: int, ask: Callable[[], None]) -> None:
        while not self._over.is_set():
            try:
                ask()
            except Exception as error:
                self.failures.append(error)
                return
            self._rounds[number] += 1

    def _anew(self) -> None:
        self.answers[str(self._door.serves())] += 1

    def _stream(self) -> None:
        with stream(self._door, pieces=5, pause=0.02) as answer:
            self.streams[answer.read().decode()] += 1

    def _keep(self) -> None:
        self._kept.request("GET", "/v1/models", headers=KEYED)
        answer = self._kept.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        self.answers[said["engine"]] += 1


@contextmanager
def load(door: Running) -> Iterator[Load]:
    """Have clients ask, before and after all that is done meanwhile; none of them may fail."""
    asking = Load(door)
    try:
        asking.goes_on()
        yield asking
        asking.goes_on()
    finally:
        asking.end()
    assert asking.failures == []


@dataclass
class Asked:
    """Requests on their way, each in a thread of its own; their answers as they come."""

    door: Running
    threads: list[threading.Thread] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def post(
        self, count: int = 1, key: str | None = KEY, body: bytes = b"{}", source: str = "127.0.0.1"
    ) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._ask, args=(key, body, source))
            self.threads.append(thread)
            thread.start()

    def all(self) -> list[str]:
        """Wait for all answers; return the engines that gave them, or their statuses."""
        for thread in self.threads:
            thread.join(timeout=patience())
            assert not thread.is_alive()
        return [str(said.get("engine", status)) for status, said in self.answers]

    def _ask(self, key: str | None, body: bytes, source: str) -> None:
        # The end of a test may come first.
        with suppress(http.client.HTTPException, OSError):
            status, said, _ = self.door.ask("POST", PATH, key, body, source)
            self.answers.append((status, said))


def waiting(door: Running, count: int) -> None:
    until(lambda: door.door.haproxy.held()[0] == count)


def had(door: Running) -> None:
    """Have had the engine `a` behind the door, which has gone since; no check has noticed it."""
    with engine_of(door.root, "a"):
        door.door.offer("a")
        until(lambda: door.status("POST", PATH) == 200)


@contextmanager
def engine_of(root: Path, name: str) -> Iterator[FakeServer]:
    """An engine that comes, or comes again, and goes."""
    with serving(server := FakeServer(root, name)):
        yield server
