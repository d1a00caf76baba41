"""The port of a door: nobody else has it, and a reload hands it on."""

import socket
import threading
from contextlib import suppress

import pytest

from tests.component.door.running import Engines, Running, haproxy, load, stream
from tests.component.servers import until

pytestmark = haproxy


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
    with load(running) as asking, stream(running, pieces=1):
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
    assert taken == []
    assert set(asking.answers) == {"a"}
