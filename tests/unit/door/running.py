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
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from door import Door

from deploys.plan.door import DoorPlan, door_plan
from tests.unit.door import FILES
from tests.unit.servers import free_port, until

KEY, OTHER = "sk-0123456789abcdefghij", "sk-abcdefghij0123456789"
SETTINGS: dict[str, Any] = {"certificate": None, "max_body_mib": 1, "max_connections": 200}


haproxy = pytest.mark.skipif(
    not shutil.which("haproxy") or getpass.getuser() != "root",
    reason="needs root and Debian's package haproxy",
)


def plan(port: int, **changes: Any) -> DoorPlan:
    values = {"keys": [KEY], **SETTINGS, **changes}
    return door_plan(bind="127.0.0.1", port=port, **values)


def files(of: DoorPlan, root: str = "/r") -> dict[str, str | None]:
    return of.files((FILES / "door.cfg").read_text(), root)


class FakeEngine(BaseHTTPRequestHandler):
    """Answers as little of an engine as a door can see; says in each answer who it is."""

    protocol_version = "HTTP/1.1"
    server: "FakeServer"

    def do_GET(self) -> None:
        asked = {"engine": self.server.name, "path": self.path, "head": dict(self.headers)}
        self.answer(200 if self.server.healthy or self.path != "/health" else 503, asked)

    do_HEAD = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v1/stream":
            self.answer(200, {"engine": self.server.name, "path": self.path, "size": len(body)})
            return
        pieces, pause = json.loads(body)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for _ in range(pieces):
                if self.server.waits:
                    self.server.turns.acquire(timeout=60)
                self.wfile.write(
                    b"%x\r\n%b\r\n" % (len(self.server.name), self.server.name.encode())
                )
                time.sleep(pause)
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

    def log_message(self, *_: Any) -> None:
        pass


class FakeServer(ThreadingHTTPServer):
    """An engine on a port of loopback."""

    daemon_threads = True

    def __init__(self, name: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), FakeEngine)
        self.name = name
        self.paths: Counter[str] = Counter()
        self.healthy = True
        self.pause = 0.0
        self.turns = threading.Semaphore(0)
        self.waits = False
        self.aborted = 0

    def handle_error(self, *_: Any) -> None:
        """A health check leaves without a word."""


class Running:
    """A door that runs: haproxy, as door.service starts it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
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
        for name, text in files(of, str(self.root)).items():
            if text is not None:
                (self.root / "door" / name).write_text(text)

    def start(self) -> None:
        self.door.prepare()
        (self.root / "run").mkdir(exist_ok=True)
        unit = (FILES / "door.service").read_text()
        (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
        # Without systemd there is nobody to be told: -W in the place of -Ws.
        command = line.replace(" -Ws ", " -W ").replace("ROOT", str(self.root))
        command = command.replace("/run/door/", f"{self.root}/run/")
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(command.split(), stdout=log, stderr=log)
        until(lambda: bool(self.door.running()))
        self.door.sync()

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=10)
            self._process = None

    def reload(self) -> None:
        self.door.reload(self.master)

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def ask(
        self, method: str, path: str, key: str | None = KEY, body: bytes | None = None, **head: str
    ) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        """Ask for a path as it is; return status, JSON and head of the answer."""
        client = self.client()
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


def asked(door: Running, request: str) -> bytes:
    """Send what no client library would; return all that comes back."""
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(request.replace("\r\n", "\r\nConnection: close\r\n", 1).encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


@contextmanager
def stream(door: Running, pieces: int, pause: float) -> Iterator[http.client.HTTPResponse]:
    """Begin a stream of so many pieces, a pause of so many seconds after each."""
    client = door.client()
    head = {"Authorization": f"Bearer {KEY}"}
    client.request("POST", "/v1/stream", json.dumps([pieces, pause]), head)
    answer = client.getresponse()
    assert answer.status == 200
    try:
        yield answer
    finally:
        answer.close()
        client.close()


@contextmanager
def load(door: Running) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Ask without a pause: each time anew, on a kept connection, and for streams.

    Yields which engines answered and what the streams brought; anything else fails in the end.
    """
    answers: Counter[str] = Counter()
    streams: Counter[str] = Counter()
    failures: list[object] = []
    over = threading.Event()
    head = {"Authorization": f"Bearer {KEY}"}

    def anew() -> None:
        answers[str(door.serves())] += 1

    def streaming() -> None:
        with stream(door, pieces=5, pause=0.02) as answer:
            streams[answer.read().decode()] += 1

    def repeat(ask: Callable[[], None]) -> None:
        while not over.is_set():
            try:
                ask()
            except Exception as error:
                failures.append(error)
                return

    kept = door.client()

    def keeping() -> None:
        kept.request("GET", "/v1/models", headers=head)
        answer = kept.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        answers[said["engine"]] += 1

    asking = [*[anew] * 2, *[streaming] * 4, keeping]
    threads = [threading.Thread(target=repeat, args=(ask,)) for ask in asking]
    for thread in threads:
        thread.start()
    try:
        yield answers, streams
        time.sleep(0.2)
    finally:
        over.set()
        for thread in threads:
            thread.join(timeout=20)
        kept.close()
    assert failures == []
