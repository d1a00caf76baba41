"""Requests that wait at the door while no engine serves."""

import http.client
import re
import threading
import time
from contextlib import ExitStack

from tests.clock import patience
from tests.component.door.running import KEYED, Engines, Running, haproxy, stream
from tests.component.door.waiting import PATH, Asked, engine, had, waiting
from tests.component.servers import until

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
    _, now, held = patient.door.haproxy.names()["client1"]
    assert now == 6
    assert held >= 3
    with engine(patient, "a"):
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
        with engine(patient, "a"):
            patient.door.offer("a")
            until(lambda: patient.status("POST", PATH) == 200)
            for client in clients:
                client.start()
            stack.callback(over.set)
        for _ in range(4):
            waiting(patient, 4)
            before = len(found)
            with engine(patient, "a"):
                until(lambda before=before: len(found) >= before + 40)  # type: ignore[misc]
        with engine(patient, "a"):
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


def test_a_reload_loses_nothing_that_waits(patient: Running, asked: Asked) -> None:
    had(patient)
    asked.post(2)
    waiting(patient, 2)
    for _ in range(2):
        patient.reload()
    asked.post(2)
    waiting(patient, 4)
    with engine(patient, "a") as again:
        assert asked.all() == ["a"] * 4
        assert again.paths[PATH] == 4


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
