"""What may befall two Sparks that serve one model, and how long they take to serve again."""

import time
from collections.abc import Callable

from tests.e2e.pairs import Pair
from tests.e2e.sparks import until
from tests.lab.spark import Handle

# Seconds that a boot of a virtual Spark adds.
BOOT = 20

# What is done, and seconds that it takes beside a detection and a start.
Event = Callable[[Pair], None]
ENGINE = "VLLM::EngineCor"
RANK = "VLLM::Worker"


def on(which: str, command: str) -> Event:
    """A command on one of the two Sparks; {unit} and {container} stand for its engine's."""

    def event(pair: Pair) -> None:
        unit = pair.unit()
        container = unit.replace("@", "-").removesuffix(".service")
        spark: Handle = getattr(pair, which)
        spark.run(
            "sudo " + command.format(unit=unit, container=container), check=False, timeout=120
        )

    return event


def power(which: str) -> Event:
    """The power of one of the two is cut, and comes back."""

    def event(pair: Pair) -> None:
        spark: Handle = getattr(pair, which)
        spark.power_off()
        spark.power_on()

    return event


def cable(pair: Pair) -> None:
    """The cable is pulled out, and put back when both have noticed."""
    pair.worker.cable(False)
    for spark in pair.both:
        until(spark, f"systemctl show -P StatusText {pair.unit()} | grep -q waiting", 60)
    pair.worker.cable(True)


EVENTS: dict[str, tuple[Event, float]] = {
    "the head's engine is killed": (on("head", f"pkill -9 {ENGINE}"), 0),
    "the worker loses its power": (power("worker"), BOOT),
    "the cable is cut and mended": (cable, 0),
    "the worker's rank hangs": (on("worker", f"pkill -STOP {RANK}"), 0),
    "the head answers /health, and completes nothing": (on("head", f"pkill -STOP {ENGINE}"), 0),
}
# The same on the other side, and what differs little: measured by `make bench`.
MIRRORED: dict[str, tuple[Event, float]] = {
    "the worker's container is removed": (on("worker", "docker rm --force {container}"), 0),
    "systemctl restart on the worker": (on("worker", "systemctl restart --no-block {unit}"), 0),
    "the head reboots": (on("head", "systemctl reboot"), BOOT),
    "the worker's engine is killed": (on("worker", f"pkill -9 {RANK}"), 0),
    "the head's container is removed": (on("head", "docker rm --force {container}"), 0),
    "systemctl restart on the head": (on("head", "systemctl restart --no-block {unit}"), 0),
    "the head loses its power": (power("head"), BOOT),
    "the worker reboots": (on("worker", "systemctl reboot"), BOOT),
}


def plain_start(pair: Pair) -> float:
    """Stop both engines, then start both; return the seconds from there to an answer."""
    unit = pair.unit()
    for spark in pair.both:
        spark.run(f"sudo systemctl stop {unit}", timeout=120)
    begun = time.monotonic()
    for spark in pair.both:
        spark.run(f"sudo systemctl start --no-block {unit}")
    pair.wait_serving()
    return time.monotonic() - begun


def recovery(pair: Pair, event: Event) -> float:
    """Let something befall a serving pair; return the seconds until both serve in another life."""
    pair.forget()
    former = pair.lives()
    begun = time.monotonic()
    event(pair)
    pair.wait_serving(former)
    return time.monotonic() - begun
