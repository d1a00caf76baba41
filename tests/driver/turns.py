"""Six models on a Spark that holds a few of them, and what is to be seen of their turns."""

import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import requests

from sparkwright.common.hardware import GIB
from tests.clock import patience
from tests.driver.client import CHAT, PORT, ask, authorization
from tests.driver.declared import edited, recipe
from tests.driver.load import Load, load
from tests.driver.sparks import eventually
from tests.lab.spark import Handle
from tests.lab.standin.core import PACE
from tests.lab.state import FLEET
from tests.unit.engine.turns_world import wait_beyond

# The share of the Spark's memory that each of them takes; one always runs.
SHARES = {"chat": 0.55, "coder": 0.55, "vision": 0.4, "small": 0.2, "rank": 0.13, "steady": 0.13}
STEADY = "steady"
PORTS = {name: PORT + number for number, name in enumerate(SHARES)}
GATEWAY = 4000
# The lab's first replica, where it is a group that takes turns.
GROUP = "lab1"
ROOT = "/opt/qwen36"
# Seconds for which a client waits for its turn: longer than a door holds a request.
_LONGEST = 600


@contextmanager
def _recipes(shares: Mapping[str, float]) -> Iterator[None]:
    """Have recipes of these sizes until the block ends."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    with ExitStack() as stack:
        for name, share in shares.items():
            served = "served_names: [tiny]", f"served_names: [{name}]"
            cache = 'KVCACHE_SPACE: "1"', f'KVCACHE_SPACE: "{max(1, round(share * total) - 2)}"'
            stack.enter_context(recipe(name, served, cache))
        yield


@contextmanager
def declared() -> Iterator[None]:
    """Have recipes of these sizes, and an inventory that serves them, until the block ends."""

    def declare(fleet: dict[str, Any]) -> None:
        first = fleet["replicas"].pop("lab1")
        for name, port in PORTS.items():
            own = {"recipe": f"lab-{name}", "port": port}
            own |= {} if name == STEADY else {"on_demand": True, "turn_seconds": 3}
            # YAML would name what all have.
            fleet["replicas"][name] = deepcopy(first) | own
        fleet["gateway"] = {"spark": "spark1", "port": GATEWAY}

    with _recipes(SHARES), edited(FLEET, declare):
        yield


@contextmanager
def taking_turns(**singles: str) -> Iterator[None]:
    """Have the lab's group take turns with models of single Sparks, until the block ends."""

    def declare(fleet: dict[str, Any]) -> None:
        replicas = fleet["replicas"]
        own = {"on_demand": True, "turn_seconds": 3}
        for name, spark in singles.items():
            its = {"recipe": f"lab-{name}", "sparks": [spark], "port": PORT + 1}
            replicas[name] = deepcopy(replicas[GROUP]) | own | its
        replicas[GROUP] |= own | {"recipe": f"lab-{GROUP}"}

    with _recipes(dict.fromkeys((GROUP, *singles), 0.55)), edited(FLEET, declare):
        yield


def asked(
    spark: Handle, name: str, tokens: int = 8, port: int = 0, **more: object
) -> requests.Response:
    """Ask one of them, and wait for its turn."""
    body = {**CHAT, "model": name, "max_tokens": tokens, **more}
    return ask(spark, body, _LONGEST, port=port or PORTS[name])


@contextmanager
def clients(spark: Handle, *names: str, each: int = 1, pause: float = 1) -> Iterator[list[Load]]:
    """Keep so many clients of each of them asking, until the block ends."""
    with ExitStack() as stack:
        own = [load(spark, each, pause, PORTS[name], name) for name in names]
        yield [stack.enter_context(one) for one in own]


def release(spark: Handle, name: str) -> str:
    """Return the release that one of them should serve."""
    seat = "" if name == next(iter(SHARES)) else f"seats/{name}/"
    return spark.run(f"basename $(readlink {ROOT}/{seat}current)").stdout.strip()


def running(spark: Handle) -> set[str]:
    """Return the names of those that serve now."""
    units = "systemctl list-units --plain --no-legend --state=active 'vllm@*'"
    return set(re.findall(r"vllm@lab-(\w+)-", spark.run(units).stdout))


def await_running(spark: Handle, *names: str) -> None:
    """Wait for these and no other: a door finds an engine before systemd hears of it."""
    eventually(lambda: running(spark) == {*names}, f"{names} to run, and no other")


def states(spark: Handle) -> dict[str, str]:
    """Return what the gateway says of each name."""
    url = f"http://{spark.address}:{GATEWAY}/v1/models"
    answer = requests.get(url, headers=authorization(), timeout=patience(10))
    return {each["id"]: each["state"] for each in answer.json()["data"]}


@dataclass(frozen=True)
class Answer:
    """The result of a request, and when: began is when its engine turned to it.

    Attributes:
        response: None where the connection broke.
    """

    name: str
    came: float
    began: float
    ended: float
    response: requests.Response | None

    @property
    def ok(self) -> bool:
        return self.response is not None and self.response.ok


def client(spark: Handle, seed: int, count: int) -> list[Answer]:
    """Be a client who stays with a model for a while, and asks so often."""
    chance, answers = random.Random(seed), list[Answer]()
    while len(answers) < count:
        name = chance.choice([*SHARES])
        for _ in range(chance.randint(3, 9)):
            came, tokens, response = time.time(), chance.randint(1, 48), None
            with suppress(requests.RequestException):
                response = asked(spark, name, tokens)
            ended = time.time()
            began = max(came, ended - tokens * PACE)
            answers.append(Answer(name, came, began, ended, response))
            time.sleep(chance.expovariate(5) if response is not None else 1)
    return answers


def waited(spark: Handle, answers: Sequence[Answer]) -> tuple[list[float], list[float]]:
    """Return what starts took up to an answer, and for how long requests waited, both sorted.

    The wait is that beyond answers of the models that had to give way.
    """
    log = spark.run("sudo journalctl --unit=turns --output=short-unix").stdout
    acts = re.findall(r"^(\S+) .* (start|stop) (\w+): ", log, re.MULTILINE)
    spans = [(each.name, each.began, each.ended) for each in answers]
    stops = [(float(at), name) for at, act, name in acts if act == "stop"]
    waits = [wait_beyond(one.name, one.came, one.began, stops, spans) for one in answers]
    starts = []
    for at, name in [(float(at), name) for at, act, name in acts if act == "start"]:
        served = [each.began for each in answers if each.name == name and each.began > at]
        starts += [min(served) - at] if served and at > min(one.came for one in answers) else []
    return sorted(starts), sorted(waits)


def told(spark: Handle, path: str = "/run/sparkwright/turns.json") -> dict[str, Any]:
    """Return what the loop says of itself."""
    found: dict[str, Any] = json.loads(spark.run(f"cat {path}").stdout)
    return found


@contextmanager
def within_the_plan(spark: Handle) -> Iterator[None]:
    """Look ten times a second which engines run; fail where they took more than the plan has."""
    look = f"ls {ROOT}/state | grep running@ | tr '\\n' ' '; echo; sleep 0.1"
    spark.run(f'nohup sh -c "while :; do {look}; done" > /tmp/seen 2>&1 & echo $! > /tmp/pid')
    yield
    spark.run("kill $(cat /tmp/pid)")
    plan = told(spark, f"{ROOT}/manifests/turns.json")
    for line in spark.run("sort -u /tmp/seen").stdout.splitlines():
        together = [plan["replicas"][name] for name in re.findall(r"@lab-(\w+)-", line)]
        spare = max((each["spare"] for each in together), default=0)
        assert sum(each["size"] for each in together) + spare <= plan["total"], line
