"""Virtual Sparks that serve one model, as tests look at them."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from sparkwright.common.ports import MASTER_PORT
from tests.clock import patience
from tests.driver.client import PORT, said
from tests.driver.sparks import POLL, current, engines_status, forget
from tests.lab import services
from tests.lab.spark import Handle

Result = TypeVar("Result")


class Group:
    """The Sparks of the lab's only replica, the head first."""

    def __init__(self, *sparks: Handle) -> None:
        self.sparks = sparks
        self.head, self.worker = sparks[0], sparks[-1]

    def each(self, do: Callable[[Handle], Result]) -> list[Result]:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(do, self.sparks))

    def unit(self) -> str:
        return f"vllm@{current(self.head)}.service"

    def ask(self, timeout: float = 60) -> str | None:
        return said(self.head, timeout=timeout)

    def lives(self) -> list[str]:
        """Return what tells this life of each unit from its next; "" where it is not active."""
        command = (
            "unit=vllm@$(basename $(readlink /opt/qwen36/current)); "
            "systemctl show -P ActiveState -P InvocationID $unit"
        )

        def life(spark: Handle) -> str:
            said = set(spark.run(command, check=False).stdout.split())
            return "".join(said - {"active"}) if "active" in said else ""

        return self.each(life)

    def wait_serving(self, previous: list[str] | None = None) -> None:
        """Wait until all units are active, in other lives than `previous`, and one answers."""
        deadline = time.monotonic() + (timeout := patience(300))
        while True:
            lives = self.lives()
            fresh = all(lives) and not set(lives) & set(previous or ())
            if fresh and self.ask():
                return
            if time.monotonic() > deadline:
                said = "\n".join(f"{spark.name}: {engines_status(spark)}" for spark in self.sparks)
                pytest.fail(f"not serving within {timeout} s\n{said}")
            time.sleep(POLL)

    def forget(self) -> None:
        self.each(forget)

    def recovery(self, strike: Callable[["Group"], object]) -> float:
        """Let something befall a serving group; return the seconds until its next lives answer."""
        self.forget()
        previous, begun = self.lives(), time.monotonic()
        strike(self)
        self.wait_serving(previous)
        return time.monotonic() - begun


class Pair(Group):
    """Two of them."""

    @property
    def both(self) -> tuple[Handle, ...]:
        return self.sparks


def check_rendezvous(pair: Group) -> None:
    """Check that the engine listens for its ranks on all addresses, and is closed on the LAN."""
    listening = pair.head.run(f"ss -Hltn sport = :{MASTER_PORT}").stdout
    assert "0.0.0.0" in listening or "*" in listening
    assert not services.answers(pair.head.address, MASTER_PORT)
    assert services.answers(pair.head.address, PORT)


def received_bytes(spark: Handle, port: str) -> int:
    return int(spark.run(f"cat /sys/class/net/{port}/statistics/rx_bytes").stdout)
