"""Requests that wait at the door while no engine serves: which, how many, and for how long."""

import http.client
import re
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from host.door import door
from host.engine.startup import keep
from tests.clock import patience
from tests.component.door.running import (
    HOLD,
    KEYED,
    PATH,
    Asked,
    Engines,
    Running,
    engine_of,
    had,
    haproxy,
    stream,
    waiting,
)
from tests.component.servers import until
from tests.makers.door import KEY, OTHER, plan

pytestmark = haproxy


def test_a_restart_of_the_engine_is_waited_through(patient: Running, asked: Asked) -> None:
    had(patient)
    # Before the checks have noticed, and afterwards.
    asked.post(3)
    waiting(patient, 3)
    until(lambda: patient.status("GET", "/health", None) == 503)
    asked.post(3)
    waiting(patient, 6)
    # Who only looks gets a word at once.
    assert patient.status("GET", "/v1/models") == 503
    assert patient.door.busy("a") == 0
    # The look counts until after it was answered.
    until(lambda: patient.door.haproxy.names()["client1"][1] == 6)
    assert patient.door.haproxy.names()["client1"][2] >= 3
    with engine_of(patient.root, "a"):
        assert asked.all() == ["a"] * 6
        waiting(patient, 0)
        assert patient.status("POST", PATH) == 200


def test_nothing_fails_while_engines_come_and_go(patient: Running) -> None:
    """Whatever moment a request comes at; but what an engine has begun to read ends with it."""
    over, found = threading.Event(), []

    def ask_on() -> None:
        while not over.is_set():
            try:
                found.append(patient.status("POST", PATH))
            except http.client.RemoteDisconnected:
                found.append(0)

    clients = [threading.Thread(target=ask_on) for _ in range(4)]
    with ExitStack() as stack:
        with engine_of(patient.root, "a"):
            patient.door.offer("a")
            until(lambda: patient.status("POST", PATH) == 200)
            for client in clients:
                client.start()
            stack.callback(over.set)
        for _ in range(2):
            waiting(patient, 4)
            before = len(found)
            with engine_of(patient.root, "a"):
                until(lambda before=before: len(found) >= before + 40)  # type: ignore[misc]
        with engine_of(patient.root, "a"):
            over.set()
            for client in clients:
                client.join(timeout=patience())
    # The server of this test was gone before it had answered. HAProxy says 502, or nothing at all
    # if the connection is reset while the request is still on its way.
    assert set(found) <= {200, 502, 0}
    assert len(found) - found.count(200) <= 5 * len(clients)


def test_a_switch_without_room_for_two_is_waited_through(
    patient: Running, asked: Asked, engines: Engines
) -> None:
    a, _b = engines("a"), engines("b")
    patient.door.offer("a")
    with stream(patient, pieces=1) as answer:
        patient.door.hold()
        asked.post(4)
        waiting(patient, 4)
        # A request that waits is not the previous engine's.
        assert patient.door.busy("a") == 1
        assert patient.status("GET", "/v1/models") == 503
        a.turns.release()
        assert answer.read() == b"a"
    patient.door.offer("b")
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
    engines("a")
    patient.door.offer("a")
    assert asked.all() == ["a"] * 2
    assert {said["size"] for _, said in asked.answers} == {2, 1024**2}


def test_a_reload_in_a_hold_ends_it_for_nobody(
    patient: Running, asked: Asked, engines: Engines
) -> None:
    """A new process gives the previous engine nothing, either; and an old one, too."""
    a = engines("a")
    patient.door.offer("a")
    until(lambda: patient.status("POST", PATH) == 200)
    resting = patient.resting()
    with stream(patient, pieces=1):
        patient.door.hold()
        patient.reload()
        asked.post(2)
        waiting(patient, 2)
        checks = a.paths["/health"]
        until(lambda: a.paths["/health"] >= checks + 4)
        assert asked.answers == []
        # An old process learns of no engine after this one: here it is as without a hold_seconds.
        resting.request("POST", PATH, b"{}", KEYED)
        assert resting.getresponse().status == 503
        patient.door.prefer("a")
        assert asked.all() == ["a"] * 2
        a.turns.release()


def test_what_waits_too_long_is_given_up_and_told(running: Running) -> None:
    running.change(hold_seconds=2)
    began = time.monotonic()
    status, said, head = running.ask("POST", PATH)
    took = time.monotonic() - began
    assert (status, said["error"]["code"]) == (503, "engine_unavailable")
    assert head["Retry-After"] == "10"
    (seconds,) = re.findall(r"held the request for (\d+) s", said["error"]["message"])
    assert 2 <= int(seconds) <= took + 1
    # HAProxy counts a request until after it has sent the answer.
    until(lambda: running.door.haproxy.held() == (0, 1))


def test_without_a_setting_a_hold_follows_from_starts(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client hears as well when to ask again, and that without a reload."""
    monkeypatch.setattr(door, "HOLD", (5, HOLD))
    release = running.root / "releases" / "a"
    for folder in (release, running.root / "state"):
        folder.mkdir(parents=True)
    (release / "release.json").write_text('{"recipe": "r", "image": "i"}')
    (release / "unit.json").write_text('{"start_timeout": 400}')
    for _ in range(3):
        keep(running.root, "a", 0.5, "serving", [])
    running.door.offer("a")

    def held(declared: int, setting: int | None) -> int:
        own = plan(running.port, hold_seconds=declared)
        settings = own.settings.model_copy(update={"hold_seconds": setting})
        running.lay(replace(own, settings=settings))
        running.reload()
        said = running.ask("POST", PATH)[1]["error"]["message"]
        (seconds,) = re.findall(r"held the request for (\d+) s", said)
        return int(seconds)

    assert held(1, 1) < 3 < held(1, None) < HOLD
    keep(running.root, "a", 41, "serving", [])
    running.door.sync()
    for method, path in (("GET", "/health"), ("POST", PATH)):
        assert running.ask(method, path)[2]["Retry-After"] == "50"


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


def test_what_waits_in_vain_is_told_why(patient: Running, asked: Asked) -> None:
    asked.post(2)
    waiting(patient, 2)
    said = threading.Thread(target=lambda: heads.append(patient.ask("POST", PATH)[2]))
    heads: list[dict[str, str]] = []
    said.start()
    waiting(patient, 3)
    patient.door.tell('"coder" answers, for long;\nask again', 40)
    patient.door.let_wait(False)
    assert asked.all() == ["503"] * 2
    said.join(timeout=patience())
    assert all("coder answers, for long ask again." in str(answer) for _, answer in asked.answers)
    assert heads[0]["Retry-After"] == "40"
    # A request that comes then is refused at once, until the door may let requests wait again.
    assert patient.ask("POST", PATH)[2]["Retry-After"] == "40"
    patient.door.let_wait(True)
    asked.post()
    waiting(patient, 1)
    patient.door.offer("a")
    with engine_of(patient.root, "a"):
        assert asked.all()[2:] == ["a"]


def test_any_change_ends_a_refusal(patient: Running, asked: Asked) -> None:
    """Its author may have been killed; the reason it gave goes with the door's next restart."""
    patient.door.let_wait(False)
    patient.door.sync()
    asked.post()
    waiting(patient, 1)
    patient.door.prepare()
    assert patient.door.haproxy.running()
    assert "down" in (patient.root / "door/choice.map").read_text()
