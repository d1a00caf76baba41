"""What may befall two Sparks that serve one model, and how long they take to serve again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.driver.pairs import Pair
from tests.driver.sparks import until
from tests.lab.spark import Handle

ENGINE = "VLLM::EngineCor"
RANK = "VLLM::Worker"


@dataclass(frozen=True)
class Event:
    """Something that befalls a pair, and the sign by which the product notices."""

    strike: Callable[[Pair], None]
    sign: Literal["end", "silence", "hang"] = "end"
    boots: bool = False


def on(which: str, command: str) -> Callable[[Pair], None]:
    """A command on one of the two Sparks; {unit} and {container} stand for its engine's."""

    def strike(pair: Pair) -> None:
        unit = pair.unit()
        container = unit.replace("@", "-").removesuffix(".service")
        spark: Handle = getattr(pair, which)
        spark.run("sudo " + command.format(unit=unit, container=container), check=False)

    return strike


def power(which: str) -> Callable[[Pair], None]:
    def strike(pair: Pair) -> None:
        spark: Handle = getattr(pair, which)
        spark.power_off()
        spark.power_on()

    return strike


def cable(pair: Pair) -> None:
    """The cable is pulled out, and put back when both have noticed."""
    pair.worker.cable(False)
    for spark in pair.both:
        waiting = f"systemctl show -P StatusText {pair.unit()} | grep -q waiting"
        until(spark, waiting)
    pair.worker.cable(True)


ENGINE_KILLED = Event(on("head", f"pkill -9 {ENGINE}"))
DEAD_RANK = "the worker's engine is killed"
RANK_HANGS = Event(on("worker", f"pkill -STOP {RANK}"), "hang")
EVENTS = {
    "the head's engine is killed": ENGINE_KILLED,
    DEAD_RANK: Event(on("worker", f"pkill -9 {RANK}")),
    "the head's container is removed": Event(on("head", "docker rm --force {container}")),
    "the worker's container is removed": Event(on("worker", "docker rm --force {container}")),
    "systemctl restart on the head": Event(on("head", "systemctl restart --no-block {unit}")),
    "systemctl restart on the worker": Event(on("worker", "systemctl restart --no-block {unit}")),
    "the cable is cut and mended": Event(cable, "silence"),
    "the head loses its power": Event(power("head"), "silence", boots=True),
    "the worker loses its power": Event(power("worker"), "silence", boots=True),
    "the head reboots": Event(on("head", "systemctl reboot"), boots=True),
    "the worker reboots": Event(on("worker", "systemctl reboot"), boots=True),
    "the worker's rank hangs": RANK_HANGS,
    "the head answers /health, and completes nothing": Event(
        on("head", f"pkill -STOP {ENGINE}"), "hang"
    ),
}


def plain_start(pair: Pair) -> float:
    """Stop both engines, then start both; return the seconds from there to an answer."""
    unit = pair.unit()
    pair.each(lambda spark: spark.run(f"sudo systemctl stop {unit}"))
    begun = time.monotonic()
    pair.each(lambda spark: spark.run(f"sudo systemctl start --no-block {unit}"))
    pair.wait_serving()
    return time.monotonic() - begun


def recovery(pair: Pair, strike: Callable[[Pair], None]) -> float:
    """Let something befall a serving pair; return the seconds until both serve in another life."""
    pair.forget()
    previous = pair.lives()
    begun = time.monotonic()
    strike(pair)
    pair.wait_serving(previous)
    return time.monotonic() - begun
