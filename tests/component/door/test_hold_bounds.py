"""Which requests wait at the door, how many, and for how long."""

import re
import socket
import time

import pytest

from tests.clock import patience
from tests.component.door.running import Engines, Running, haproxy
from tests.component.door.waiting import HOLD, PATH, Asked, had, waiting
from tests.component.servers import until
from tests.makers.door import KEY, OTHER

pytestmark = haproxy


def test_what_waits_too_long_is_given_up_and_told(running: Running) -> None:
    running.change(hold_seconds=2)
    began = time.monotonic()
    status, said, head = running.ask("POST", PATH)
    took = time.monotonic() - began
    assert (status, said["error"]["code"]) == (503, "engine_unavailable")
    assert head["Retry-After"] == "10"
    (seconds,) = re.findall(r"held the request for (\d+) s", said["error"]["message"])
    assert 2 <= int(seconds) <= took + 1
    assert running.door.haproxy.held() == (0, 1)


@pytest.mark.parametrize("hold", [0, HOLD])
def test_who_does_not_want_to_wait_or_may_not_hears_so_at_once(
    running: Running, hold: int, engines: Engines
) -> None:
    running.change(hold_seconds=hold)
    # Before the checks have noticed, too: another replica could serve what a gateway asks.
    had(running)
    for wish in ("wait=0", "respond-async, wait=0", "Wait=0"):
        status, said, _ = running.ask("POST", PATH, Prefer=wish)
        assert (status, "held" in said["error"]["message"]) == (503, False)
    if not hold:
        assert running.status("POST", PATH) == 503
    assert running.status("POST", PATH, "sk-wrong") == 401
    assert running.door.haproxy.held() == (0, 0)
    engines("a")
    running.door.offer("a")
    until(lambda: running.serves() == "a")
    _, said, _ = running.ask("GET", "/v1/models", Prefer="wait=0")
    assert "prefer" not in {name.lower() for name in said["head"]}


def test_neither_all_clients_nor_one_take_more_places_than_there_are(running: Running) -> None:
    third = f"{KEY}-third"
    keys = [KEY, OTHER, third]
    running.change(keys=keys, hold_seconds=HOLD, max_connections=12)
    asked = Asked(running)
    try:
        # A quarter of all places is one name's.
        asked.post(3)
        waiting(running, 3)
        assert running.status("POST", PATH) == 429
        asked.post(3, OTHER, source="127.0.0.2")
        waiting(running, 6)
        # Half of them is for those that wait.
        assert running.status("POST", PATH, third, source="127.0.0.3") == 503
        assert running.status("GET", "/health", None, source="127.0.0.4") == 503
        assert asked.answers == []
    finally:
        running.stop()
        asked.all()


def test_without_keys_a_source_has_its_part(running: Running, engines: Engines) -> None:
    running.change(keys=None, hold_seconds=HOLD, max_connections=12)
    asked = Asked(running)
    asked.post(3, None)
    waiting(running, 3)
    assert running.status("POST", PATH, None) == 503
    other = running.client("127.0.0.2")
    other.request("POST", PATH, b"{}")
    waiting(running, 4)
    engines("a")
    running.door.offer("a")
    assert other.getresponse().status == 200
    assert asked.all() == ["a"] * 3


@pytest.mark.parametrize("size", [2, 32 * 1024**2])
def test_a_client_that_leaves_is_forgotten(patient: Running, size: int, engines: Engines) -> None:
    """At once if its request fits into haproxy's buffer; else haproxy reads on for an engine, which
    gets half a request.
    """
    patient.change(keys=[KEY], hold_seconds=HOLD, max_body_mib=64)
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
    client = socket.create_connection(("127.0.0.1", patient.port), timeout=patience())
    client.setblocking(False)
    sent = client.send(f"{head}Content-Length: {size}\r\n\r\n".encode() + b"x" * size)
    assert sent > len(head)
    assert sent < size or size == 2
    waiting(patient, 1)
    client.close()
    if size < 16 * 1024:
        waiting(patient, 0)
    server = engines("a")
    patient.door.offer("a")
    until(lambda: patient.status("POST", PATH) == 200)
    waiting(patient, 0)
    assert server.paths[PATH] == 1
