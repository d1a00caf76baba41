"""A virtual Spark that serves, as tests look at it."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest
import requests

from tests.clock import patience
from tests.driver.client import PORT, said
from tests.lab.spark import Handle

T = TypeVar("T")
# Seconds between two looks by SSH, of which each takes some hundredths from what is looked at.
POLL = 0.5


def current(spark: Handle) -> str:
    """Return the release that should serve, and boots."""
    return spark.run("basename $(readlink /opt/qwen36/current)").stdout.strip()


def unit(spark: Handle) -> str:
    return f"vllm@{current(spark)}.service"


def engines(spark: Handle) -> set[str]:
    """Return the units that are active or will be at boot."""
    states = "--state=active,activating"
    command = (
        f"systemctl list-units --plain --no-legend {states} 'vllm@*' | cut -d' ' -f1; "
        "ls /etc/systemd/system/multi-user.target.wants | grep '^vllm@'"
    )
    return set(spark.run(command, check=False).stdout.split())


def standing(spark: Handle) -> tuple[str, set[str], bool]:
    return current(spark), engines(spark), bool(said(spark))


def only(release: str) -> tuple[str, set[str], bool]:
    return release, {f"vllm@{release}.service"}, True


def engines_status(spark: Handle) -> str:
    return spark.run("systemctl status --no-pager -n 5 'vllm@*'", check=False).stdout


def forget(spark: Handle) -> None:
    """Have a Spark forget its restarts and power cuts: tests cause more than an hour may have."""
    units = "systemctl reset-failed 'vllm@*'"
    spark.run(f'sudo sh -c "{units}; rm -f /opt/qwen36/state/hard-downs"')


def eventually(look: Callable[[], T | None], what: str, timeout: float = 120) -> T:
    """Look until there is something, and return it; else fail: "waited N s for `what`"."""
    deadline = time.monotonic() + patience(timeout)
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {patience(timeout):.0f} s for {what}")
        time.sleep(0.2)
    return found


def until(spark: Handle, command: str, timeout: float = 120) -> None:
    """Wait until a command succeeds on a Spark; fail the test after `timeout` seconds."""
    deadline = time.monotonic() + patience(timeout)
    while (answer := spark.run(command, check=False)).returncode:
        if time.monotonic() > deadline:
            said = f"{answer.stdout}{answer.stderr}\n{engines_status(spark)}"
            pytest.fail(f"not within {patience(timeout):.0f} s on {spark.name}: {command}\n{said}")
        time.sleep(POLL)


def restarted_from_a_hang(spark: Handle) -> str:
    """Have the engine hang, which goes on answering /health, until it restarts; return its unit."""
    name = unit(spark)
    restarts = f"systemctl show -P NRestarts {name}"
    before = int(spark.run(restarts).stdout)
    spark.run("sudo pkill -STOP VLLM::EngineCor")
    assert requests.get(f"http://{spark.address}:{PORT}/health", timeout=patience(10)).ok
    until(spark, f"test $({restarts}) -gt {before}")
    return name


def wait_active(spark: Handle) -> None:
    until(spark, "systemctl is-active 'vllm@*'")
    eventually(lambda: said(spark), "a good answer of the door")
