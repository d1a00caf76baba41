"""The door under attack by one of those who have a key."""

import ctypes
import http.client
import os
import statistics
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sparkwright.door.key import Key
from tests.component.door.running import HOLD, FakeServer, Running, haproxy, opened, waiting
from tests.makers.door import KEY
from tests.security.attacks import TIMES, attack, attacked, first_token

# As group_data/all.py has them, but for the time that a request waits.
SETTINGS = {
    **{"max_connections": 1000, "stranger_connections": 200, "max_body_mib": 64},
    "hold_seconds": HOLD,
}
OTHERS = {
    f"127.0.0.{number}": Key(name=f"ann{number}", secret=f"{KEY}-ann-{number}")
    for number in range(2, 6)
}
HOSTILE = Key(name="mallory", secret=f"{KEY}-mallory")
# Two are of one IPv6 network of 64 bits.
SOURCES = (
    *(f"127.0.1.{number}" for number in range(1, 8)),
    *("fd00:1::1", "fd00:1::2", "fd00:2::1"),
)
# Whose key the door has not seen, and who has none.
NEW, NOBODY = "127.0.0.6", "127.0.0.7"
CLONE_NEWNET = 0x40000000
pytestmark = haproxy


@contextmanager
def network() -> Iterator[None]:
    """Have a network of this thread's own, and of what it starts, with the hostile addresses."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            for address in SOURCES[-3:]:
                add = f"ip address add {address}/128 dev lo nodad"
                subprocess.run(add.split(), check=True)
            yield
        finally:
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0


@pytest.fixture
def running(
    tmp_path: Path, engine: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """A door with the keys of five, in a network of its own, and the engine behind it."""
    monkeypatch.setenv("ATTACK_KEY", HOSTILE.secret)
    keys = [HOSTILE, *OTHERS.values()]
    with network(), opened(tmp_path, keys=keys, bind="::", **SETTINGS) as running:
        running.door.offer("a")
        yield running


def shown(key: Key) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.secret}"}


def began(running: Running, source: str, key: Key) -> http.client.HTTPConnection:
    """Have a stream, of which the first piece has come."""
    client = running.client(source)
    client.request("POST", "/v1/stream", "[1, null]", shown(key))
    answer = client.getresponse()
    assert answer.status == 200, answer.read()
    return client


def of_others(running: Running) -> tuple[float, float]:
    """Return the median and the 95th percentile of the others' seconds; none of them may fail."""

    def ask(pair: tuple[str, Key]) -> list[float]:
        source, key = pair
        return [first_token(running.client(source), shown(key)) for _ in range(TIMES)]

    with ThreadPoolExecutor(len(OTHERS)) as each:
        found = sorted(took for one in each.map(ask, OTHERS.items()) for took in one)
    return statistics.median(found), found[len(found) * 95 // 100]


def under_attack(running: Running, calm: tuple[float, float]) -> tuple[float, float]:
    """Return the same while an attack lasts."""
    # Attack, engine, clients and door share this machine's processor.
    return attacked(
        lambda: of_others(running),
        lambda found: found[0] < 1.5 * calm[0] and found[1] < 3 * calm[1],
    )


def others_have_half(running: Running, engine: FakeServer) -> None:
    """Have so many streams at once."""
    each = SETTINGS["max_connections"] // 2 // len(OTHERS)
    wanted = [pair for pair in OTHERS.items() for _ in range(each)]
    with ThreadPoolExecutor(32) as clients, ExitStack() as stack:
        for client in clients.map(lambda pair: began(running, *pair), wanted):
            stack.callback(client.close)
    engine.turns.release(len(wanted))


@pytest.mark.parametrize(
    "kind", ["resting", "posting", "unread", "pipelined", "looking", "churning"]
)
def test_one_key_takes_at_most_half(running: Running, engine: FakeServer, kind: str) -> None:
    """From ten addresses, with a hundred connections each."""
    calm = of_others(running)
    with attack(running.port, kind, SETTINGS["max_connections"] // 10, SOURCES) as under_way:
        assert under_way.held <= SETTINGS["max_connections"] // 2
        seconds = under_attack(running, calm)
        first_token(running.client(NEW), shown(OTHERS["127.0.0.2"]))
        assert running.status("GET", "/health", None, source=NOBODY) == 200
        others_have_half(running, engine)
    figures = (f"{1000 * each:.0f}" for each in (*calm, *seconds))
    print(f"{kind}: held {under_way.held}, tried {under_way.tried}; ms:", *figures)
    assert seconds[0] < 1.5 * calm[0]
    assert seconds[1] < 3 * calm[1]


def test_a_key_and_many_strangers_together_leave_an_eighth(running: Running) -> None:
    """Three quarters are taken by who has shown no key, and of the rest a name gets half."""
    calm = of_others(running)
    known = SOURCES[:7]
    for source in known:
        assert running.status("GET", "/v1/models", HOSTILE.secret, source=source) == 200
    strangers = tuple(f"127.0.3.{number}" for number in range(1, 11))
    most = SETTINGS["max_connections"]
    with (
        attack(running.port, "silent", most // 5, strangers) as silent,
        attack(running.port, "resting", most // 10, known) as resting,
    ):
        assert silent.held <= most * 3 // 4
        assert resting.held <= most // 8
        seconds = under_attack(running, calm)
        assert seconds[0] < 1.5 * calm[0]
        with ExitStack() as stack:
            for source, key in OTHERS.items():
                for _ in range(most // 8 // len(OTHERS) - 1):
                    stack.callback(began(running, source, key).close)


def test_one_key_takes_at_most_half_of_those_that_wait(running: Running) -> None:
    running.door.hold()
    most = SETTINGS["max_connections"] // 2
    with attack(running.port, "waiting", most // 5, SOURCES), ThreadPoolExecutor(most) as clients:
        waiting(running, most // 2)
        wanted = [pair for pair in OTHERS.items() for _ in range(most // 2 // len(OTHERS))]
        # In a network of its own is who was started there.
        answers = [
            clients.submit(running.status, "POST", "/v1/completions", key.secret, source=source)
            for source, key in wanted
        ]
        waiting(running, most // 2 + len(wanted))
        assert running.door.haproxy.names()[HOSTILE.name][1] <= most // 2 + 1
        running.door.prefer("a")
        assert {answer.result() for answer in answers} == {200}
