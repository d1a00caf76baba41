"""What may befall Sparks that serve one model, and how long they take to serve again."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from host.common import probe
from host.engine import peer_link
from tests.driver.pairs import Group
from tests.driver.sparks import current, until
from tests.lab.spark import Handle
from tests.lab.state import Twin

ENGINE = "VLLM::EngineCor"
RANK = "VLLM::Worker"
# Seconds until supervisors have found each other, at the worst.
_GREETED = peer_link.GREETING + peer_link.RETRY
# How much longer a start or a boot may take than when it was measured, as others use the machine
# as well. What notices a fault too late takes tens of seconds more.
_BUSY_START, _BUSY_BOOT = 4, 2


@dataclass(frozen=True)
class Fault:
    """Something that befalls a Spark of a group, and the sign by which the others notice."""

    strike: Callable[[Group, Handle], None]
    sign: Literal["end", "silence", "hang"] = "end"
    boots: bool = False


def command(words: str) -> Callable[[Group, Handle], None]:
    """A command of root's; {unit} and {container} stand for the engine's."""

    def strike(group: Group, spark: Handle) -> None:
        unit = group.unit()
        container = unit.replace("@", "-").removesuffix(".service")
        spark.run("sudo " + words.format(unit=unit, container=container), check=False)

    return strike


def power(_: Group, spark: Handle) -> None:
    spark.power_off()
    spark.power_on()


def cable(group: Group, spark: Handle, twin: Twin | None = None) -> None:
    """The cables of a Spark are pulled out, and put back when all have noticed."""
    spark.cable(False, twin=twin)
    for each in group.sparks:
        until(each, f"systemctl show -P StatusText {group.unit()} | grep -q waiting")
    spark.cable(True)


_SUPERVISOR = "-f 'bin/[e]ngine /opt'"
FAULTS = {
    "its rank is killed": Fault(command(f"pkill -9 {RANK}")),
    "its rank is told to end": Fault(command(f"pkill -TERM {RANK}")),
    "its rank hangs": Fault(command(f"pkill -STOP {RANK}"), "hang"),
    "its container is removed": Fault(command("docker rm --force {container}")),
    "its unit is restarted": Fault(command("systemctl restart --no-block {unit}")),
    "its supervisor is killed": Fault(command(f"pkill -KILL {_SUPERVISOR}")),
    "its supervisor hangs": Fault(command(f"pkill -STOP {_SUPERVISOR}"), "hang"),
    "Docker is restarted": Fault(command("systemctl restart docker")),
    "it loses its power": Fault(power, "silence", boots=True),
    "it reboots": Fault(command("systemctl reboot"), boots=True),
    "its cables are cut and mended": Fault(cable, "silence"),
    "twin a of its cables is cut and mended": Fault(partial(cable, twin="a"), "silence"),
}


@dataclass(frozen=True)
class Event:
    """A fault of one of the two Sparks of a pair."""

    where: Literal["head", "worker"]
    fault: Fault

    def strike(self, pair: Group) -> None:
        self.fault.strike(pair, getattr(pair, self.where))


ENGINE_KILLED = Event("head", Fault(command(f"pkill -9 {ENGINE}")))
DEAD_RANK = "the worker's engine is killed"
RANK_HANGS = Event("worker", FAULTS["its rank hangs"])
EVENTS = {
    "the head's engine is killed": ENGINE_KILLED,
    DEAD_RANK: Event("worker", FAULTS["its rank is killed"]),
    "the head's container is removed": Event("head", FAULTS["its container is removed"]),
    "the worker's container is removed": Event("worker", FAULTS["its container is removed"]),
    "systemctl restart on the head": Event("head", FAULTS["its unit is restarted"]),
    "systemctl restart on the worker": Event("worker", FAULTS["its unit is restarted"]),
    "the cable is cut and mended": Event("worker", FAULTS["its cables are cut and mended"]),
    "the head loses its power": Event("head", FAULTS["it loses its power"]),
    "the worker loses its power": Event("worker", FAULTS["it loses its power"]),
    "the head reboots": Event("head", FAULTS["it reboots"]),
    "the worker reboots": Event("worker", FAULTS["it reboots"]),
    "the worker's rank hangs": RANK_HANGS,
    "the head answers /health, and completes nothing": Event(
        "head", Fault(command(f"pkill -STOP {ENGINE}"), "hang")
    ),
}


def plain_start(pair: Group) -> float:
    """Stop all engines, then start all; return the seconds from there to an answer."""
    unit = pair.unit()
    pair.each(lambda spark: spark.run(f"sudo systemctl stop {unit}"))
    begun = time.monotonic()
    pair.each(lambda spark: spark.run(f"sudo systemctl start --no-block {unit}"))
    pair.wait_serving()
    return time.monotonic() - begun


def noticed(group: Group) -> dict[str, float]:
    """Return the seconds until the product has noticed, by its own timers, and starts again."""
    unit = f"/opt/qwen36/releases/{current(group.head)}/unit.json"
    step = json.loads(group.head.run(f"cat {unit}").stdout)["longest_step"]
    pause = group.head.run(f"systemctl show -P RestartUSec {group.unit()}").stdout
    restart = float(pause.strip().removesuffix("s"))
    hang = probe.found_within(probe.patience(step))
    signs = {"end": 0.0, "silence": peer_link.SILENCE, "hang": hang}
    return {sign: seconds + restart for sign, seconds in signs.items()}


def bounded(
    group: Group, fault: Fault, seconds: float, start: float, boot: Callable[[], float]
) -> str:
    """Check that a group was back in time; return what was measured.

    Args:
        start: Seconds of a plain start, measured again if it seems to take longer by now.
        boot: Returns those of a boot.
    """
    rest = noticed(group)[fault.sign] + _GREETED + (_BUSY_BOOT * boot() if fault.boots else 0)
    if seconds > rest + _BUSY_START * start:
        start = plain_start(group)
    bound = rest + _BUSY_START * start
    measured = f"{seconds:.0f} s of at most {bound:.0f} s; a plain start: {start:.0f} s"
    assert seconds <= bound, measured
    return measured
