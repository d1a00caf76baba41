"""Engines that come and go, and settings that change, under a door that runs and keeps its port."""

import http.client
import json
import socket
import threading
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest

from host.door.haproxy import DoorError
from sparkwright.door.key import Key
from tests.component.door.running import (
    KEYED,
    Engines,
    FakeServer,
    Running,
    engine_of,
    haproxy,
    load,
    opened,
    stream,
)
from tests.component.servers import fill, small_disk, until
from tests.makers.door import KEY, OTHER, plan

pytestmark = haproxy


def test_the_preferred_engine_gets_all_and_the_other_what_it_cannot_take(
    running: Running, engines: Engines
) -> None:
    door, a, b = running.door, engines("a"), engines("b")
    door.offer("a")
    door.offer("b")
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
    assert running.status("GET", "/health", None) == running.status("HEAD", "/health") == 503
    door.prefer("a")
    assert running.serves() == "a"
    door.forget("a")
    assert running.serves() is None
    # And the one that it is to go back to comes again.
    with engine_of(running.root, "b"):
        door.offer("b")
        door.prefer("b")
        until(lambda: running.serves() == "b")


def test_a_hold_ends_on_a_full_disk(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with small_disk(root), opened(root) as running, engine_of(root, "a"):
        running.door.offer("a")
        running.door.hold()
        assert running.serves() is None
        fill(root)
        running.door.prefer("a")
        assert running.serves() == "a"
        # The rest of the way back reads what is on the disk.
        running.door.forget("b")
        assert running.serves() == "a"


def test_switches_under_load_lose_no_request(running: Running, engines: Engines) -> None:
    door = running.door
    for name in "ab":
        engines(name)
    door.offer("a")
    with load(running) as asking:
        for new, old in [("b", "a"), ("a", "b")] * 3:
            door.offer(new)
            asking.goes_on()
            door.prefer(new)
            asking.goes_on()
            assert {running.serves() for _ in range(5)} == {new}
            until(lambda old=old: door.busy(old) == 0)  # type: ignore[misc]
            door.forget(old)
    assert set(asking.answers) == {"a", "b"}
    assert set(asking.streams) == {"aaaaa", "bbbbb"}


def test_a_switch_cuts_no_stream_of_before(running: Running, engines: Engines) -> None:
    door, a, _b = running.door, engines("a"), engines("b")
    door.offer("a")
    with stream(running, pieces=20) as answer:
        door.offer("b")
        door.prefer("b")
        assert running.serves() == "b"
        door.forget("a")
        assert door.busy("a") == 1
        assert door.engines() == ["b"]
        # And back again, while it still goes on.
        door.offer("a")
        door.prefer("a")
        assert running.serves() == "a"
        door.prefer("b")
        door.forget("a")
        a.turns.release(20)
        assert answer.read() == b"a" * 20
    until(lambda: door.busy("a") == 0)


def test_what_was_there_before_a_reload_counts_and_loses_no_request(
    running: Running, engines: Engines
) -> None:
    door, _a, _b = running.door, engines("a"), engines("b")
    door.offer("a")
    # The first answer to a source ends its connection.
    assert running.serves() == "a"
    resting = running.resting()
    with stream(running, pieces=1):
        running.reload()
        assert door.busy("a") == 2
        door.offer("b")
        door.prefer("b")
        assert running.serves() == "b"
    # Its next request goes where it went before: that engine must stay until then.
    until(lambda: door.busy("a") == 1)
    resting.request("GET", "/v1/models", headers=KEYED)
    answer = resting.getresponse()
    assert json.loads(answer.read())["engine"] == "a"
    assert answer.headers["Connection"] == "close"
    until(lambda: door.busy("a") == 0)


def test_a_hold_reaches_what_was_there_before_a_reload(
    running: Running, engine: FakeServer
) -> None:
    assert running.serves() == "a"
    resting = running.resting()
    with stream(running, pieces=1):
        running.reload()
        running.door.hold()
        assert running.door.busy("a") == 1
        resting.request("GET", "/v1/models", headers=KEYED)
        assert resting.getresponse().status == 503


def test_a_reload_that_cannot_be_leaves_the_door_as_it_was(
    running: Running, engine: FakeServer
) -> None:
    config = running.root / "door" / "door.cfg"
    good = config.read_text()
    config.write_text("nonsense\n")
    with pytest.raises(DoorError, match="did not take its new files"):
        running.reload()
    assert running.serves() == "a"
    config.write_text(good)
    running.reload()
    assert running.serves() == "a"


def test_a_restart_finds_what_was_chosen(running: Running, engines: Engines) -> None:
    door, _a, b = running.door, engines("a"), engines("b")
    door.offer("a")
    running.stop()
    door.offer("b")
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


def test_a_key_that_is_taken_away_ends_what_is_in_flight(
    running: Running, engine: FakeServer
) -> None:
    """Nobody knows whose of the streams is whose: all of before the reload end."""
    new = running.root / "new"
    new.mkdir()

    def deploy(*keys: str | Key) -> None:
        text = plan(running.port, keys=keys).files(str(running.root))["keys"] or ""
        (new / "keys").write_text(text)
        running.door.compare(new)
        (running.root / "door" / "keys").write_text(text)
        running.reload()

    deploy(KEY, OTHER)
    with stream(running, pieces=2) as answer:
        engine.turns.release()
        assert answer.read1(1) == b"a"
        # Another one, and one that has ended by itself, cut nothing.
        deploy(KEY, Key(name="ann", secret=OTHER, until=date(2020, 1, 1)))
        deploy(KEY)
        engine.turns.release()
        assert answer.read() == b"a"
    assert running.serves() == "a"
    resting = running.resting()
    with stream(running, pieces=2) as answer:
        deploy(OTHER)
        with pytest.raises((http.client.HTTPException, OSError)):
            answer.read()
    assert resting.sock.recv(1) == b""
    assert running.status("GET", "/v1/models", OTHER) == 200
    engine.turns.release(2)
    until(lambda: running.door.busy("a") == 0)


def bound(port: int, address: str) -> bool:
    """Try to listen there as well, as root in an engine's container can."""
    with socket.socket() as beside, suppress(OSError):
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        beside.bind((address, port))
        beside.listen()
        return True
    return False


@pytest.mark.parametrize("own", ["127.0.0.1", "0.0.0.0"])
def test_nobody_listens_beside_it_and_reloads_lose_no_request(
    running: Running, engines: Engines, own: str
) -> None:
    """Before a reload, in its every moment, and while a stream keeps the previous process."""
    engine = engines("a")
    running.door.offer("a")
    # From one address to all of them, which takes the port anew, too.
    running.change(bind=own)
    over, taken = threading.Event(), []

    def try_on() -> None:
        while not over.is_set():
            taken.extend(each for each in ("127.0.0.1", "0.0.0.0") if bound(running.port, each))

    beside = threading.Thread(target=try_on)
    with load(running) as asking, stream(running, pieces=1) as long:
        beside.start()
        try:
            for _ in range(5):
                running.reload()
                asking.goes_on()
            until(lambda: asking.answers.total() >= 250)
        finally:
            over.set()
            beside.join()
            engine.turns.release()
        assert long.read() == b"a"
    assert taken == []
    assert set(asking.answers) == {"a"}
