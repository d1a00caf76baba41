"""Attacks on a server, and how its clients fare meanwhile."""

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tests.clock import patience
from tests.lab.state import PROJECT

T = TypeVar("T")

# Where the hostile connections come from, and where those of a client with a key do.
HOSTILE, CLIENT = "127.0.0.2", "127.0.0.3"
CONNECTIONS = 5000
# Seconds for which an engine reads a short prompt, at the best; and how often it is asked.
FIRST_TOKEN, TIMES = 0.2, 9
# How much nicer than those that it attacks an attacker is (sched(7)).
AHEAD = 15


@dataclass
class Attack:
    """Connections that are held; those that were tried and were left are known at the end."""

    held: int
    tried: int = field(default=0)
    left: int = field(default=0)


@contextmanager
def attack(
    port: int,
    kind: str,
    count: int = CONNECTIONS,
    sources: tuple[str, ...] = (HOSTILE,),
    target: str = "127.0.0.1",
    within: tuple[str, ...] = (),
) -> Iterator[Attack]:
    """Attack a port from each source, as attack.py says; `within` is a command that starts it."""
    command = [*within, "nice", "-n", str(AHEAD), sys.executable, "-m", "tests.security.attack"]
    command += [target, str(port), kind, str(count)]
    with subprocess.Popen(
        [*command, *sources], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        _, held = process.stdout.readline().split()
        under_way = Attack(int(held))
        try:
            yield under_way
        finally:
            said, _ = process.communicate()
        _, tried, _, left = said.split()
        under_way.tried, under_way.left = int(tried), int(left)


def first_token(client: http.client.HTTPConnection, head: dict[str, str]) -> float:
    """Return the seconds until the first piece of a stream of the door has come."""
    since = time.monotonic()
    client.request("POST", "/v1/stream", "[2, 0]", head)
    with client.getresponse() as answer:
        assert answer.status == 200, answer.read()
        assert answer.read1(1) == b"a"
        took = time.monotonic() - since
    client.close()
    return took


def median(ask: Callable[[], object]) -> float:
    """Return the seconds until what is asked for has come: the median of several times."""
    found = []
    for _ in range(TIMES):
        began = time.monotonic()
        ask()
        found.append(time.monotonic() - began)
    return statistics.median(found)


def attacked(look: Callable[[], T], within: Callable[[T], bool]) -> T:
    """Return what a look finds while an attack lasts, looking again until it is `within` bounds or
    a minute has gone: what else the machine does passes, the attack does not.
    """
    deadline = time.monotonic() + patience(60)
    while not within(found := look()) and time.monotonic() < deadline:
        pass
    return found


def median_attacked(ask: Callable[[], object], calm: float) -> float:
    """Return the median that is to be below 1.5 times the calm one, while an attack lasts."""
    return attacked(partial(median, ask), lambda found: found < 1.5 * calm)
