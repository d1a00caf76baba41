"""Requests that wait at the door while no engine serves."""

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clock import patience
from tests.component.door.running import FakeServer, Running, haproxy, stream
from tests.component.servers import serving, until
from tests.unit.door.plans import KEY, OTHER, plan

PATH = "/v1/chat/completions"
HOLD = 300
Engines = Callable[[str], FakeServer]


@dataclass
class Asked:
    """Requests on their way, each in a thread of its own; their answers as they come."""

    door: Running
    threads: list[threading.Thread] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def post(self, count: int = 1, key: str | None = KEY, body: bytes = b"{}") -> None:
        """Send so many requests."""
        for _ in range(count):
            thread = threading.Thread(target=self._ask, args=(key, body))
            self.threads.append(thread)
            thread.start()

    def all(self) -> list[str]:
        """Wait for all answers; return the engines that gave them, or their statuses."""
        for thread in self.threads:
            thread.join(timeout=patience())
            assert not thread.is_alive()
        return [str(said.get("engine", status)) for status, said in self.answers]

    def _ask(self, key: str | None, body: bytes) -> None:
        # The end of a test may come first.
        with suppress(http.client.HTTPException, OSError):
            status, said, _ = self.door.ask("POST", PATH, key, body)
            self.answers.append((status, said))


@pytest.fixture
def patient(running: Running) -> Running:
    """A door that holds requests."""
    running.lay(plan(running.port, keys=[KEY, OTHER], hold_seconds=HOLD))
    running.reload()
    return running


@pytest.fixture
def asked(patient: Running, request: pytest.FixtureRequest) -> Iterator[Asked]:
    each = Asked(patient)
    yield each
    # Else they wait for as long as the door lets them.
    patient.stop()
    for thread in each.threads:
        thread.join(timeout=patience())


def waiting(door: Running, count: int) -> None:
    """Return when so many requests wait."""
    until(lambda: door.door.held()[0] == count)


@contextmanager
def engine(name: str, port: int) -> Iterator[FakeServer]:
    """An engine that comes (again) on a port, and goes."""
    server = FakeServer(name, port)
    with serving(server):
        yield server


@haproxy
def test_a_restart_of_the_engine_is_waited_through(patient: Running, asked: Asked) -> None:
    with engine("a", 0) as first:
        port = first.server_port
        patient.door.offer("a", port)
        until(lambda: patient.status("POST", PATH) == 200)
    # Before the checks have noticed, and afterwards.
    asked.post(3)
    waiting(patient, 3)
    until(lambda: patient.status("GET", "/health", None) == 503)
    asked.post(3)
    waiting(patient, 6)
    # Who only looks gets a word at once.
    assert patient.status("GET", "/v1/models") == 503
    assert patient.door.busy("a") == 0
    _, now, held = patient.door.names()["client1"]
    assert now == 6
    assert held >= 3
    with engine("a", port):
        assert asked.all() == ["a"] * 6
        waiting(patient, 0)
        assert patient.status("POST", PATH) == 200


@haproxy
def test_nothing_fails_while_engines_come_and_go(patient: Running) -> None:
    """Whatever moment a request comes at; but what an engine has begun to read ends with it."""
    over, found = threading.Event(), []

    def ask_on() -> None:
        while not over.is_set():
            found.append(patient.status("POST", PATH))

    clients = [threading.Thread(target=ask_on) for _ in range(4)]
    with ExitStack() as stack:
        with engine("a", 0) as first:
            port = first.server_port
            patient.door.offer("a", port)
            until(lambda: patient.status("POST", PATH) == 200)
            for client in clients:
                client.start()
            stack.callback(over.set)
        for _ in range(4):
            waiting(patient, 4)
            before = len(found)
            with engine("a", port):
                until(lambda before=before: len(found) >= before + 40)  # type: ignore[misc]
        with engine("a", port):
            over.set()
            for client in clients:
                client.join(timeout=patience())
    # 502: the server of this test was gone before it had answered.
    assert found.count(503) == 0
    assert found.count(502) <= 5 * len(clients)


@haproxy
def test_a_switch_without_room_for_two_is_waited_through(
    patient: Running, asked: Asked, engines: Engines
) -> None:
    a, b = engines("a"), engines("b")
    patient.door.offer("a", a.server_port)
    with stream(patient, pieces=1) as answer:
        patient.door.hold()
        asked.post(4)
        waiting(patient, 4)
        # What waits is none of the former's.
        assert patient.door.busy("a") == 1
        assert patient.status("GET", "/v1/models") == 503
        a.turns.release()
        assert answer.read() == b"a"
    patient.door.offer("b", b.server_port)
    asked.post()
    waiting(patient, 5)
    assert asked.answers == []
    a.healthy = False
    patient.door.prefer("b")
    assert asked.all() == ["b"] * 5
    assert not a.paths[PATH]
    # And the next one.
    patient.door.hold()
    asked.post()
    waiting(patient, 1)
    patient.door.prefer("b")
    asked.all()


@haproxy
def test_what_waits_too_long_is_given_up_and_told(running: Running) -> None:
    running.lay(plan(running.port, hold_seconds=2))
    running.reload()
    began = time.monotonic()
    status, said, head = running.ask("POST", PATH)
    took = time.monotonic() - began
    assert (status, said["error"]["code"]) == (503, "engine_unavailable")
    assert head["Retry-After"] == "10"
    (seconds,) = re.findall(r"held the request for (\d+) s", said["error"]["message"])
    assert 2 <= int(seconds) <= took + 1
    assert running.door.held() == (0, 1)


@haproxy
@pytest.mark.parametrize("hold", [0, HOLD])
def test_who_does_not_want_to_wait_or_may_not_hears_so_at_once(
    running: Running, hold: int, engines: Engines
) -> None:
    running.lay(plan(running.port, hold_seconds=hold))
    running.reload()
    for wish in ("wait=0", "respond-async, wait=0", "Wait=0"):
        status, said, _ = running.ask("POST", PATH, Prefer=wish)
        assert (status, "held" in said["error"]["message"]) == (503, False)
    if not hold:
        assert running.status("POST", PATH) == 503
    assert running.status("POST", PATH, "sk-wrong") == 401
    assert running.door.held() == (0, 0)
    running.door.offer("a", engines("a").server_port)
    until(lambda: running.serves() == "a")
    _, said, _ = running.ask("GET", "/v1/models", Prefer="wait=0")
    assert "prefer" not in {name.lower() for name in said["head"]}


@haproxy
def test_what_a_gateway_is_refused_does_not_wait(patient: Running) -> None:
    """Before the checks have noticed, too: another replica could serve it."""
    with engine("a", 0) as first:
        patient.door.offer("a", first.server_port)
        until(lambda: patient.status("POST", PATH) == 200)
    status, said, _ = patient.ask("POST", PATH, Prefer="wait=0")
    assert (status, "held" in said["error"]["message"]) == (503, False)


@haproxy
def test_neither_all_clients_nor_one_take_more_places_than_there_are(running: Running) -> None:
    third = f"{KEY}-third"
    keys = [KEY, OTHER, third]
    running.lay(plan(running.port, keys=keys, hold_seconds=HOLD, max_connections=12))
    running.reload()
    asked = Asked(running)
    try:
        # A quarter of all places is one name's.
        asked.post(3)
        waiting(running, 3)
        assert running.status("POST", PATH) == 503
        asked.post(3, OTHER)
        waiting(running, 6)
        # Half of them is for those that wait.
        assert running.status("POST", PATH, third) == 503
        assert running.status("GET", "/health", None) == 503
        assert asked.answers == []
    finally:
        running.stop()
        asked.all()


@haproxy
def test_without_keys_a_source_has_its_part(running: Running, engines: Engines) -> None:
    running.lay(plan(running.port, keys=None, hold_seconds=HOLD, max_connections=12))
    running.reload()
    asked = Asked(running)
    asked.post(3, None)
    waiting(running, 3)
    assert running.status("POST", PATH, None) == 503
    other = running.client("127.0.0.2")
    other.request("POST", PATH, b"{}")
    waiting(running, 4)
    running.door.offer("a", engines("a").server_port)
    assert other.getresponse().status == 200
    assert asked.all() == ["a"] * 3


@haproxy
@pytest.mark.parametrize("size", [2, 1024**2])
def test_a_client_that_leaves_is_forgotten(patient: Running, size: int, engines: Engines) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    client = socket.create_connection(("127.0.0.1", patient.port), timeout=patience())
    client.setblocking(False)
    sent = client.send(f"{head}Content-Length: {size}\r\n\r\n".encode() + b"x" * size)
    assert sent > len(head)
    waiting(patient, 1)
    client.close()
    waiting(patient, 0)
    server = engines("a")
    patient.door.offer("a", server.server_port)
    until(lambda: patient.status("POST", PATH) == 200)
    assert server.paths[PATH] == 1


@haproxy
def test_the_whole_body_arrives_afterwards_and_no_timeout_ends_the_wait(
    patient: Running, engines: Engines
) -> None:
    config = patient.root / "door" / "door.cfg"
    text = re.sub(r"timeout (client|http-request) \w+", r"timeout \1 1s", config.read_text())
    config.write_text(text)
    patient.reload()
    asked = Asked(patient)
    asked.post(body=b"x" * 1024**2)
    asked.post()
    waiting(patient, 2)
    time.sleep(3)
    waiting(patient, 2)
    patient.door.offer("a", engines("a").server_port)
    assert asked.all() == ["a"] * 2
    assert {said["size"] for _, said in asked.answers} == {2, 1024**2}


@haproxy
def test_a_reload_loses_nothing_that_waits(patient: Running, asked: Asked) -> None:
    with engine("a", 0) as first:
        port = first.server_port
        patient.door.offer("a", port)
        until(lambda: patient.status("POST", PATH) == 200)
    asked.post(2)
    waiting(patient, 2)
    for _ in range(2):
        patient.reload()
    asked.post(2)
    waiting(patient, 4)
    with engine("a", port) as again:
        assert asked.all() == ["a"] * 4
        assert again.paths[PATH] == 4


@haproxy
def test_a_reload_in_a_hold_ends_it_for_nobody(
    patient: Running, asked: Asked, engines: Engines
) -> None:
    """A new process gives the former engine nothing, either; and an old one, too."""
    a = engines("a")
    patient.door.offer("a", a.server_port)
    until(lambda: patient.status("POST", PATH) == 200)
    resting = patient.client()
    head = {"Authorization": f"Bearer {KEY}"}
    resting.request("GET", "/v1/models", headers=head)
    assert resting.getresponse().read()
    with stream(patient, pieces=1):
        patient.door.hold()
        patient.reload()
        asked.post(2)
        waiting(patient, 2)
        checks = a.paths["/health"]
        until(lambda: a.paths["/health"] >= checks + 4)
        assert asked.answers == []
        # An old process learns of no engine after this one: here it is as without a hold_seconds.
        resting.auto_open = 0
        resting.request("POST", PATH, b"{}", head)
        assert resting.getresponse().status == 503
        patient.door.prefer("a")
        assert asked.all() == ["a"] * 2
        a.turns.release()
