"""Two virtual Sparks that serve one model, as tests look at them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import yaml

from tests.e2e.client import said
from tests.lab.spark import Handle
from tests.lab.state import FLEET

# A random model often finds two tokens equally likely but for rounding, and one Spark rounds in
# another order than two. The answer to this question has no such tie among its first tokens.
GREEDY = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 8,
    "temperature": 0,
    "chat_template_kwargs": {"enable_thinking": False},
}


@dataclass(frozen=True)
class Pair:
    """The two Sparks of the lab's only replica."""

    head: Handle
    worker: Handle

    @property
    def both(self) -> tuple[Handle, Handle]:
        """Head and worker."""
        return self.head, self.worker

    def unit(self) -> str:
        """Return the unit of the release that should serve."""
        release = self.head.run("basename $(readlink /opt/qwen36/current)").stdout.strip()
        return f"vllm@{release}.service"

    def ask(self, timeout: float = 60) -> str | None:
        """Return the answer to the greedy request; None when none comes."""
        return said(self.head, GREEDY, timeout)

    def lives(self) -> list[str]:
        """Return what tells this life of each unit from its next; "" where it is not active."""
        command = (
            "unit=vllm@$(basename $(readlink /opt/qwen36/current)); "
            "systemctl is-active -q $unit && systemctl show -P InvocationID $unit"
        )
        return [spark.run(command, check=False).stdout.strip() for spark in self.both]

    def wait_serving(self, former: list[str] | None = None, timeout: float = 300) -> None:
        """Wait until both units are active, in other lives than `former`, and one answers."""
        deadline = time.monotonic() + timeout
        while True:
            lives = self.lives()
            fresh = all(lives) and not set(lives) & set(former or ())
            if fresh and self.ask():
                return
            if time.monotonic() > deadline:
                pytest.fail(f"not serving within {timeout} s\n{self.report()}")
            time.sleep(1)

    def forget(self) -> None:
        """Have both forget their restarts: tests cause more than an hour may have."""
        forget = f"systemctl reset-failed {self.unit()}; rm -f /opt/qwen36/state/hard-downs"
        for spark in self.both:
            spark.run(f"sudo sh -c '{forget}'")

    def status(self, spark: Handle) -> str:
        """Return what `systemctl status` says of the engine's unit."""
        return spark.run(f"systemctl status --no-pager -n 5 {self.unit()}", check=False).stdout

    def report(self) -> str:
        """Return what both units say, for a failure."""
        return "\n".join(f"{spark.name}: {self.status(spark)}" for spark in self.both)

    def until(self, spark: Handle, command: str, timeout: float) -> None:
        """Wait until a command succeeds on a Spark."""
        deadline = time.monotonic() + timeout
        while spark.run(command, check=False).returncode:
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout} s on {spark.name}: {command}\n{self.report()}")
            time.sleep(1)


def received_bytes(spark: Handle, port: str) -> int:
    """Return the bytes that a Spark's port has received since it booted."""
    return int(spark.run(f"cat /sys/class/net/{port}/statistics/rx_bytes").stdout)


@contextmanager
def replica(**changes: object) -> Iterator[None]:
    """Let the inventory say something else of the replica for a while."""
    text = FLEET.read_text()
    content = yaml.safe_load(text)
    content["replicas"]["lab1"] |= changes
    FLEET.write_text(yaml.safe_dump(content, sort_keys=False))
    try:
        yield
    finally:
        FLEET.write_text(text)


@contextmanager
def alone(pair: Pair, recipe: str) -> Iterator[Handle]:
    """Have the first Spark be to serve a recipe, the other be idle, and both be as delivered."""
    for spark in pair.both:
        spark.reset()
    with replica(recipe=recipe, sparks=["spark1"]):
        yield pair.head
