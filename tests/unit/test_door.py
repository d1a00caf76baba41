"""The door: haproxy itself on loopback, with small servers in the place of engines."""

import getpass
import http.client
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploys.certificate import read_certificate
from deploys.plan.door import DoorPlan, DoorState, door_plan, mark, parse_door
from deploys.plan.errors import PlanError
from tests.unit.certificates import certificate, private_key, written
from tests.unit.servers import fill, free_port, serving, small_disk, until

FILES = Path(__file__).parents[2] / "files" / "door"
sys.path.insert(0, str(FILES))

from door import Door, DoorError, Engine  # noqa: E402

KEY, OTHER = "sk-0123456789abcdefghij", "sk-abcdefghij0123456789"
SETTINGS: dict[str, Any] = {"certificate": None, "max_body_mib": 1, "max_connections": 200}

# The routes of vLLM 0.33: those that a key opens, and those that nobody needs from outside.
WITH_KEY = (
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/chat/completions/batch"),
    ("POST", "/v1/chat/completions/render"),
    ("POST", "/v1/chat/completions/derender"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_0a-1"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/decisions"),
    ("POST", "/v1/systemone"),
    ("GET", "/metrics"),
    ("GET", "/metrics/door"),
)
CLOSED = (
    ("GET", "/"),
    ("GET", "/ping"),
    ("POST", "/ping"),
    ("GET", "/load"),
    ("GET", "/version"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/kv_event_sources"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/invocations"),
    ("POST", "/generative_scoring"),
    ("POST", "/inference/v1/generate"),
    ("POST", "/scale_elastic_ep"),
    ("POST", "/sleep"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/unload_lora_adapter"),
)
# Ways past a list of paths that are known from other proxies.
TRICKS = (
    "/v1",
    "/v1/",
    "//v1/models",
    "/v1//models",
    "//invocations",
    "/v1/../invocations",
    "/v1/..",
    "/v1/./models",
    "/v1/%2e%2e/invocations",
    "/v1/..%2finvocations",
    "/v1/%2e./invocations",
    "/v1/..;/invocations",
    "/v1/models;/../../invocations",
    "/v1/%252e%252e/invocations",
    "/v1/..\\invocations",
    "/v1/\\..\\invocations",
    "/v1/models%00",
    "/v1/models#/../invocations",
    "/V1/models",
    "/%76%31/models",
    "/health/../invocations",
    "/health/",
    "/metrics/../invocations",
    "/metrics/door/..",
    "/invocations?/v1/models",
    "/invocations/v1/models",
    "http://door/invocations",
    "http://door/v1/models",
    "*",
)


UPGRADE = {"Connection": "Upgrade", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


def test_settings_are_checked_by_name() -> None:
    good = plan(8000)
    assert door_plan(
        **SETTINGS | {"max_body_mib": "1"}, bind="127.0.0.1", port=8000, keys=[KEY]
    ) == replace(good, keys=good.keys)
    for setting, bad in (
        ("bind", "spark-a"),
        ("bind", None),
        ("max_body_mib", 0),
        ("max_body_mib", "64 MiB"),
        ("max_connections", True),
        ("max_connections", -5),
    ):
        values = {"bind": "127.0.0.1", **SETTINGS, setting: bad}
        with pytest.raises(PlanError, match=f"group_data: {setting}: found") as raised:
            door_plan(**values, port=8000, keys=None)
        assert repr(bad) in str(raised.value)


def test_what_is_in_force_is_told_by_all_that_it_is_made_of(tmp_path: Path) -> None:
    written(tmp_path, certificate(key := private_key(), days=90), key)
    tls = read_certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    plans = [
        plan(8000),
        plan(8001),
        plan(8000, keys=[OTHER]),
        plan(8000, keys=None),
        plan(8000, certificate=tls),
    ]
    marks = {mark(files(each)) for each in plans}
    assert len(marks) == len(plans)
    for each in plans:
        texts = "".join(text or "" for text in files(each).values())
        assert KEY not in texts
        assert OTHER not in texts


def test_a_clean_host_and_one_with_a_door_are_told_apart() -> None:
    clean = [
        "@@installed",
        "@@stray",
        "@@elsewhere",
        "@@taken",
        "@@there",
        "@@files",
        "@@unit",
        "inactive",
        "@@running",
    ]
    assert parse_door(clean) == DoorState(
        None,
        stray=False,
        elsewhere=False,
        taken=(),
        there=False,
        active=False,
        enabled=False,
        outdated=False,
        version="",
        mark="",
        files={},
    )
    running = [
        *("@@installed", "2.8.5-1ubuntu3.4", "@@stray", "enabled", "inactive"),
        *("@@elsewhere", "@@taken", "nginx (pid 7)", "@@there", "/r/door"),
        *("@@files", "0a1b 600 keys"),
        *("@@unit", "active", "enabled", "outdated"),
        *("@@running", "version 2.8.5-1ubuntu3.3", "mark 0a"),
    ]
    assert parse_door(running) == DoorState(
        "2.8.5-1ubuntu3.4",
        stray=True,
        elsewhere=False,
        taken=("nginx (pid 7)",),
        there=True,
        active=True,
        enabled=True,
        outdated=True,
        version="2.8.5-1ubuntu3.3",
        mark="0a",
        files={"keys": ("600", "0a1b")},
    )
    with pytest.raises(ValueError, match="running"):
        parse_door(clean[:-1])


def test_the_files_stand_without_a_running_door(tmp_path: Path) -> None:
    door = Door(tmp_path, tmp_path / "run")
    with pytest.raises(DoorError, match="offer it first"):
        door.prefer("a-1")
    with pytest.raises(DoorError, match="expected a release"):
        door.offer("a\n server evil", 18000)
    door.offer("a-1", 18001)
    door.offer("b-2", 18002)
    door.offer("b-2", 18002)
    assert door.engines() == [Engine("a-1", 18001), Engine("b-2", 18002)]
    door.prefer("b-2")
    door.hold()
    assert Door(tmp_path).engines() == [Engine("b-2", 18002), Engine("a-1", 18001)]
    assert door.busy("a-1") == 0
    assert "hold yes" in (tmp_path / "door" / "choice.map").read_text()
    door.prepare()
    assert "hold no" in (tmp_path / "door" / "choice.map").read_text()
    door.forget("b-2")
    door.forget("b-2")
    assert door.engines() == [Engine("a-1", 18001)]
    door.forget("a-1")
    assert door.engines() == []
    assert {file.name for file in (tmp_path / "door").iterdir()} == {
        *("engines.cfg", "choice.map", "lock")
    }


def test_a_door_without_files_knows_what_should_serve(tmp_path: Path) -> None:
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    (release / "release.json").write_text('{"port": 18321}')
    (tmp_path / "current").symlink_to("releases/tiny-1")
    run = [sys.executable, str(FILES / "door.py"), str(tmp_path)]
    subprocess.run([*run, "prepare"], check=True)
    said = subprocess.run([*run, "engines"], check=True, capture_output=True, text=True)
    assert said.stdout == "tiny-1 18321\n"
    assert "first tiny-1" in (tmp_path / "door" / "choice.map").read_text()
    refused = subprocess.run([*run, "prefer", "other"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("door.py: found no engine other")


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
        text = json.dumps(content).encode()
        time.sleep(self.server.pause)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)
        self.server.paths[self.path] += 1

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


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    each = Running(tmp_path)
    each.lay(each.plan)
    try:
        each.start()
        yield each
    finally:
        each.stop()


@pytest.fixture
def engines() -> Iterator[Callable[[str], FakeServer]]:
    with ExitStack() as stack:

        def start(name: str) -> FakeServer:
            server = FakeServer(name)
            stack.enter_context(serving(server))
            return server

        yield start


@pytest.fixture
def behind(running: Running, engines: Callable[[str], FakeServer]) -> tuple[Running, FakeServer]:
    """A door with one engine behind it."""
    engine = engines("a")
    running.door.offer("a", engine.server_port)
    return running, engine


@haproxy
def test_each_endpoint_without_a_key_with_a_wrong_one_and_the_right_one(
    behind: tuple[Running, FakeServer],
) -> None:
    door, engine = behind
    wrong = (None, "", KEY[:-1], KEY + "0", KEY.upper(), f"{KEY} {KEY}", OTHER)
    for method, path in WITH_KEY:
        for key in wrong:
            status, said, head = door.ask(method, path, key)
            assert (status, said["error"]["code"]) == (401, "invalid_api_key"), (path, key)
            assert head["WWW-Authenticate"] == "Bearer"
    assert not engine.paths.keys() - {"/health"}
    for method, path in WITH_KEY:
        assert door.status(method, path) == 200, path
        assert door.status(method, path, None, **{"x-api-key": KEY}) == 200, path
        assert door.status(method, path, None, Authorization=f"bearer {KEY}") == 200, path
    for method, path in CLOSED:
        for key in (None, OTHER, KEY):
            status, said, _ = door.ask(method, path, key)
            assert (status, said["error"]["code"]) == (404, "not_found"), (path, key)
    assert door.status("GET", "/health", None) == 200
    assert door.status("HEAD", "/v1/models") == 200


@haproxy
@pytest.mark.parametrize("path", TRICKS)
def test_no_path_gets_past_the_list(behind: tuple[Running, FakeServer], path: str) -> None:
    door, engine = behind
    for method in ("GET", "POST", "CONNECT"):
        said = asked(
            door,
            f"{method} {path} HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Length: 0\r\n\r\n",
        )
        assert said[9:12] in (b"404", b"400"), said
    assert not engine.paths.keys() - {"/health"}


@haproxy
def test_methods_and_bodies(behind: tuple[Running, FakeServer]) -> None:
    door, engine = behind
    for method, path in (
        ("DELETE", "/v1/models"),
        ("PUT", "/v1/models"),
        ("TRACE", "/v1/models"),
        ("OPTIONS", "/v1/models"),
        ("POST", "/health"),
        ("OPTIONS", "/metrics"),
        ("POST", "/metrics/door"),
    ):
        status, said, head = door.ask(method, path)
        assert (status, said["error"]["code"]) == (405, "method_not_allowed"), (method, path)
        assert "GET" in head["Allow"]
    path = "/v1/completions"
    assert door.ask("POST", path, body=b"x" * 1024**2)[1]["size"] == 1024**2
    # Refused by what it says of itself: before it comes. Cut down to 32 bits, 2^32 + 1 is small.
    for size in (1024**2 + 1, 2**31, 2**32 + 1, 2**63 - 1, 2**64 - 1, 2**64 + 1):
        status, said, _ = door.ask("POST", path, body=b"", **{"Content-Length": str(size)})
        assert (status, said["error"]["code"]) == (413, "request_too_large"), size
        assert "1 MiB" in said["error"]["message"]
    for length in ("-1", "+1", "1,2", "0x10"):
        with suppress(ConnectionError):
            assert door.status("POST", path, **{"Content-Length": length}) == 400
    client = door.client()
    head = {"Authorization": f"Bearer {KEY}", "Transfer-Encoding": "chunked"}
    with suppress(BrokenPipeError):
        client.request("POST", path, iter([b"x" * 10]), head, encode_chunked=True)
    assert client.getresponse().status == 411
    assert engine.paths[path] == 1


@haproxy
@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Content-Length: 1\r\nContent-Length: 2", b"400"),
        ("Content-Length : 1", b"400"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", b"411"),
        ("Content-Length: 5\r\nTransfer-Encoding: identity", b"400"),
        ("Content-Length: 5\r\nTransfer-Encoding:\x0bchunked", b"400"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked, identity", b"400"),
        ("Content-Length: 5\r\nTransfer-Encoding : chunked", b"400"),
        ("Content-Length: 5\r\nHost: other", b"400"),
    ],
)
def test_a_body_has_one_length_for_door_and_engine(
    behind: tuple[Running, FakeServer], head: str, status: bytes
) -> None:
    """Else a second request could lie in the body of the first, past the list."""
    door, engine = behind
    said = asked(
        door,
        f"POST /v1/completions HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer {KEY}\r\n{head}"
        "\r\n\r\n0\r\n\r\nGET /invocations HTTP/1.1\r\nHost: door\r\n\r\n",
    )
    assert said[9:12] == status
    assert not engine.paths.keys() - {"/health"}


@haproxy
def test_a_key_counts_where_it_is_asked_for_alone(behind: tuple[Running, FakeServer]) -> None:
    door, engine = behind
    assert door.plan.keys
    for head in (
        f"Authorization: Bearer wrong\r\nAuthorization: Bearer {KEY}",
        f"Authorization: Basic {KEY}",
        f"Authorization: {KEY}",
        f"Proxy-Authorization: Bearer {KEY}",
        f"Authorization: Bearer {door.plan.keys[0]}",
        f"x-api-key: wrong,{KEY}",
        "x-api-key:",
        f"Cookie: authorization=Bearer {KEY}",
    ):
        path = f"/v1/models?api_key={KEY}"
        said = asked(door, f"GET {path} HTTP/1.1\r\nHost: door\r\n{head}\r\n\r\n")
        assert said[9:12] == b"401", head
    assert door.status("GET", "/v1/realtime", None, **UPGRADE, Upgrade="websocket") == 401
    assert not engine.paths.keys() - {"/health"}
    # Of two, the first one is meant, and none goes on.
    both = f"authorization: Bearer {KEY}\r\nAuthorization: Bearer wrong\r\nX-API-KEY: wrong"
    said = asked(door, f"GET /v1/models HTTP/1.1\r\nHost: door\r\n{both}\r\n\r\n")
    assert said[9:12] == b"200"
    assert b"wrong" not in said


@haproxy
@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_the_engine_is_asked_for_no_other_protocol(
    behind: tuple[Running, FakeServer], protocol: str
) -> None:
    door, _ = behind
    upgrade = {**UPGRADE, "Upgrade": protocol}
    page = {"Origin": "http://page.example", "Access-Control-Request-Method": "GET"}
    for method, path, key, more in (
        ("GET", "/v1/realtime", KEY, {}),
        ("GET", "/health", None, {}),
        ("OPTIONS", "/v1/realtime", None, page),
    ):
        status, said, _ = door.ask(method, path, key, **upgrade, **more)
        assert status == 200
        assert "upgrade" not in {name.lower() for name in said["head"]}


@haproxy
def test_the_journal_gets_no_key(behind: tuple[Running, FakeServer]) -> None:
    door, _ = behind
    assert door.status("GET", f"/v1/models?api_key={KEY}") == 200
    assert door.status("GET", f"/v1/models?key={KEY}", None, **{"x-api-key": OTHER}) == 401
    assert door.status("GET", f"/invocations?key={KEY}") == 404
    asked(door, f"GET /v1/models?key={KEY} HTTP/1.1\r\nAuthorization : Bearer {KEY}\r\n\r\n")
    until(lambda: (door.root / "log").read_text().count('/v1/models HTTP/1.1"') == 2)
    log = (door.root / "log").read_text()
    assert '"GET /invocations HTTP/1.1"' in log
    assert KEY not in log
    assert OTHER not in log


@haproxy
def test_a_page_of_a_browser_may_ask_first(behind: tuple[Running, FakeServer]) -> None:
    door, engine = behind
    asks = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    assert door.status("OPTIONS", "/v1/chat/completions", None, **asks) == 200
    assert door.status("OPTIONS", "/invocations", None, **asks) == 404
    assert door.status("OPTIONS", "/metrics", None, **asks) == 405
    assert engine.paths["/v1/chat/completions"] == 1
    # A page can read what went wrong.
    head = door.ask("POST", "/v1/chat/completions", None, Origin=asks["Origin"])[2]
    assert head["Access-Control-Allow-Origin"] == "*"


@haproxy
def test_the_engine_learns_who_asks_and_no_key(behind: tuple[Running, FakeServer]) -> None:
    door, _ = behind
    sent = {"X-Forwarded-For": "10.9.9.9", "X-Api-Key": KEY, "X-Forwarded-Proto": "https"}
    head = {k.lower(): v for k, v in door.ask("GET", "/v1/models", **sent)[1]["head"].items()}
    assert head["x-forwarded-for"] == "127.0.0.1"
    assert head["x-forwarded-proto"] == "http"
    assert not {"authorization", "x-api-key"} & head.keys()


@haproxy
def test_a_stream_comes_piece_by_piece(behind: tuple[Running, FakeServer]) -> None:
    """The engine says each piece only after the one before has come."""
    door, engine = behind
    engine.waits = True
    with stream(door, pieces=8, pause=0) as answer:
        for _ in range(8):
            engine.turns.release()
            assert answer.read1(1) == b"a"


@haproxy
def test_a_client_that_leaves_ends_its_request_in_the_engine(
    behind: tuple[Running, FakeServer],
) -> None:
    door, engine = behind
    with stream(door, pieces=1000, pause=0.02) as answer:
        answer.read1(1)
        assert door.door.busy("a") == 1
    until(lambda: engine.aborted == 1)
    until(lambda: door.door.busy("a") == 0)
    # One that waits for an answer in one piece, too.
    engine.pause = 30
    client = door.client()
    client.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    until(lambda: door.door.busy("a") == 1)
    client.close()
    until(lambda: door.door.busy("a") == 0)


@haproxy
def test_no_engine_is_503_for_clients_to_try_again(running: Running) -> None:
    for path in ("/v1/models", "/health", "/metrics"):
        status, said, head = running.ask("GET", path)
        assert (status, said["error"]["code"]) == (503, "engine_unavailable")
        assert head["Retry-After"] == "10"
        assert head["Content-Type"] == "application/json"
    status, said, _ = running.ask("GET", "/metrics/host")
    # Port 9100 of this machine may be somebody's.
    assert (status, said.get("error", {}).get("code")) in ((503, "no_node_exporter"), (200, None))
    assert "haproxy_frontend_http_responses_total" in running.ask("GET", "/metrics/door")[1]["text"]


@haproxy
def test_the_preferred_engine_gets_all_and_the_other_what_it_cannot_take(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    door, a, b = running.door, engines("a"), engines("b")
    door.offer("a", a.server_port)
    door.offer("b", b.server_port)
    assert {running.serves() for _ in range(20)} == {"a"}
    door.prefer("b")
    assert {running.serves() for _ in range(20)} == {"b"}
    b.server_close()
    b.shutdown()
    # Refused there, taken here; and then known to be down.
    assert {running.serves() for _ in range(20)} == {"a"}
    a.healthy = False
    until(lambda: running.serves() is None)
    a.healthy = True
    until(lambda: running.serves() == "a")
    door.hold()
    assert running.serves() is None
    assert running.status("GET", "/health", None) == 503
    door.prefer("a")
    assert running.serves() == "a"
    door.forget("a")
    assert running.serves() is None
    # The one that it is to go back to may have another port by now.
    door.offer("b", a.server_port)
    door.prefer("b")
    until(lambda: running.serves() == "a")


@haproxy
def test_a_hold_ends_on_a_full_disk(tmp_path: Path, engines: Callable[[str], FakeServer]) -> None:
    with small_disk(tmp_path / "root"):
        running = Running(tmp_path / "root")
        running.lay(running.plan)
        running.start()
        try:
            running.door.offer("a", engines("a").server_port)
            running.door.hold()
            assert running.serves() is None
            fill(running.root)
            running.door.prefer("a")
            assert running.serves() == "a"
            # The rest of the way back reads what is on the disk.
            running.door.forget("b")
            assert running.serves() == "a"
        finally:
            running.stop()


@haproxy
def test_switches_under_load_lose_no_request(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    door = running.door
    names = ["a", "b"]
    ports = {name: engines(name).server_port for name in names}
    door.offer("a", ports["a"])
    with load(running) as (answers, streams):
        for new, old in [("b", "a"), ("a", "b")] * 3:
            door.offer(new, ports[new])
            time.sleep(0.1)
            door.prefer(new)
            time.sleep(0.1)
            assert {running.serves() for _ in range(5)} == {new}
            until(lambda old=old: door.busy(old) == 0)  # type: ignore[misc]
            door.forget(old)
    assert set(answers) == {"a", "b"}
    assert set(streams) == {"aaaaa", "bbbbb"}
    assert min(streams.values()) > 5


@haproxy
def test_a_switch_cuts_no_stream_of_before(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    door, a, b = running.door, engines("a"), engines("b")
    door.offer("a", a.server_port)
    with stream(running, pieces=20, pause=0.1) as answer:
        door.offer("b", b.server_port)
        door.prefer("b")
        assert running.serves() == "b"
        door.forget("a")
        assert door.busy("a") == 1
        assert door.engines() == [Engine("b", b.server_port)]
        # And back again, while it still goes on.
        door.offer("a", a.server_port)
        door.prefer("a")
        assert running.serves() == "a"
        door.prefer("b")
        door.forget("a")
        assert answer.read() == b"a" * 20
    until(lambda: door.busy("a") == 0)


@haproxy
def test_keys_change_by_a_reload_that_loses_no_request(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    a, b = engines("a"), engines("b")
    running.door.offer("a", a.server_port)
    before = running.door.running()["mark"]
    with load(running) as (answers, streams), stream(running, pieces=40, pause=0.1) as long:
        running.lay(plan(running.port, keys=[KEY, OTHER]))
        assert running.status("GET", "/v1/models", OTHER) == 401
        running.reload()
        assert running.status("GET", "/v1/models", OTHER) == 200
        assert running.door.running()["mark"] != before
        # What the old process has in flight counts, and a switch reaches it.
        assert running.door.busy("a") >= 1
        running.door.offer("b", b.server_port)
        running.door.prefer("b")
        assert {running.serves() for _ in range(20)} == {"b"}
        running.reload()
        assert long.read() == b"a" * 40
    assert set(answers) == {"a", "b"}
    assert set(streams) == {"aaaaa", "bbbbb"}
    running.lay(plan(running.port, keys=[OTHER]))
    running.reload()
    assert running.status("GET", "/v1/models") == 401
    assert running.status("GET", "/v1/models", OTHER) == 200


@haproxy
def test_what_was_there_before_a_reload_counts_and_loses_no_request(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    door, a, b = running.door, engines("a"), engines("b")
    door.offer("a", a.server_port)
    resting = running.client()
    # It would silently connect anew.
    resting.auto_open = 0
    resting.connect()

    def asked() -> http.client.HTTPResponse:
        resting.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        answer = resting.getresponse()
        assert json.loads(answer.read())["engine"] == "a"
        return answer

    asked()
    with stream(running, pieces=1000, pause=0.02):
        running.reload()
        assert door.busy("a") == 2
        door.offer("b", b.server_port)
        door.prefer("b")
        assert running.serves() == "b"
    # Its next request goes where it went before: that engine must stay until then.
    until(lambda: door.busy("a") == 1)
    assert asked().headers["Connection"] == "close"
    until(lambda: door.busy("a") == 0)


@haproxy
def test_a_hold_reaches_what_was_there_before_a_reload(behind: tuple[Running, FakeServer]) -> None:
    running, _ = behind
    resting = running.client()
    head = {"Authorization": f"Bearer {KEY}"}
    resting.request("GET", "/v1/models", headers=head)
    assert resting.getresponse().read()
    with stream(running, pieces=1000, pause=0.02):
        running.reload()
        running.door.hold()
        assert running.door.busy("a") == 1
        resting.auto_open = 0
        resting.request("GET", "/v1/models", headers=head)
        assert resting.getresponse().status == 503


@haproxy
def test_it_speaks_no_http_2(behind: tuple[Running, FakeServer]) -> None:
    with socket.create_connection(("127.0.0.1", behind[0].port), timeout=10) as client:
        # The preface, and an empty SETTINGS frame.
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


@haproxy
def test_a_reload_that_cannot_be_leaves_the_door_as_it_was(
    behind: tuple[Running, FakeServer],
) -> None:
    running, _ = behind
    config = running.root / "door" / "door.cfg"
    good = config.read_text()
    config.write_text("nonsense\n")
    with pytest.raises(DoorError, match="did not take its new files"):
        running.reload()
    assert running.serves() == "a"
    config.write_text(good)
    running.reload()
    assert running.serves() == "a"


@haproxy
def test_a_restart_finds_what_was_chosen(
    running: Running, engines: Callable[[str], FakeServer]
) -> None:
    door, a, b = running.door, engines("a"), engines("b")
    door.offer("a", a.server_port)
    running.stop()
    door.offer("b", b.server_port)
    door.prefer("b")
    running.start()
    assert running.serves() == "b"
    door.hold()
    running.stop()
    # A power cut in a switch: the preferred one does not come up again, the other does.
    b.shutdown()
    b.server_close()
    running.start()
    until(lambda: running.serves() == "a")


@haproxy
def test_tls_with_the_owners_certificate(
    running: Running, engines: Callable[[str], FakeServer], tmp_path: Path
) -> None:
    running.door.offer("a", engines("a").server_port)
    written(tmp_path, certificate(key := private_key(), days=90), key)
    tls = read_certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    running.lay(plan(running.port, certificate=tls))
    running.reload()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    client = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=10, context=trusting)
    client.request("GET", "/v1/models", headers={"Authorization": f"Bearer {KEY}"})
    answer = client.getresponse()
    assert answer.status == 200
    head = {k.lower(): v for k, v in json.loads(answer.read())["head"].items()}
    assert head["x-forwarded-proto"] == "https"
    assert client.sock.selected_alpn_protocol() == "http/1.1"  # type: ignore[attr-defined]
    old = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", running.port), timeout=10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        old.wrap_socket(plain, server_hostname="127.0.0.1")


@haproxy
def test_a_door_without_a_key_is_open_and_still_has_its_list(
    behind: tuple[Running, FakeServer],
) -> None:
    running, _ = behind
    running.lay(plan(running.port, keys=None))
    running.reload()
    assert running.status("GET", "/v1/models", None) == 200
    assert running.status("POST", "/invocations", None) == 404


@haproxy
def test_a_client_may_be_silent_while_the_engine_thinks(
    behind: tuple[Running, FakeServer],
) -> None:
    """The timeout for clients, here 1 s, does not run while it is the engine's turn."""
    running, engine = behind
    config = running.root / "door" / "door.cfg"
    config.write_text(config.read_text().replace("timeout client 10m", "timeout client 1s"))
    running.reload()
    engine.pause = 3
    assert running.status("GET", "/v1/models") == 200


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
