"""After a reboot the Spark serves again, with nobody's help."""

import time
from typing import Any

import pytest
from testinfra.host import Host

from sparkwright.declared.recipe import questions
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Api, Proved
from sparkwright.verify.sparks import is_local

# What changes with each boot; a container has its host's boot_id, and a process 1 of its own.
BOOT = "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f22 /proc/1/stat"
# Seconds until units start: firmware and system of a Spark may take 3 to 4 minutes.
BOOT_TIMEOUT = 300


def output(host: Host, command: str) -> str | None:
    """Return what a command prints; None when it fails, or the Spark cannot be reached."""
    try:
        result = host.run(command)
    except RuntimeError:  # ssh's own failure
        return None
    return result.stdout if result.rc == 0 else None


def test_serves_again_after_reboot(
    host: Host, target: SparkTarget, release: Release, api: Api, proved: Proved, pytestconfig: Any
) -> None:
    if not pytestconfig.getoption("--reboot"):
        pytest.skip("reboots the Spark: ask for it with --reboot")
    if target.on_demand:
        pytest.skip("a request starts it, not a boot")
    if is_local(target.spark):
        pytest.skip("the Spark that runs the tests cannot watch its own reboot")
    before = host.check_output(BOOT)
    begun = time.monotonic()
    output(host, "systemctl reboot")
    deadline = begun + BOOT_TIMEOUT + release.recipe.start_timeout
    active = f"systemctl is-active --quiet vllm@{release.id} && {{ {BOOT}; }}"
    while (output(host, active) or before).strip() == before:
        if time.monotonic() > deadline:
            pytest.fail(f"vllm@{release.id} is not active {deadline - begun:.0f} s after a reboot")
        time.sleep(2)
    recipe = release.recipe
    question = questions.shortest(recipe.answers, recipe.served_names[0])
    assert questions.problem(recipe.answers, api(question.path, question.body)) is None
    proved(f"serves again {time.monotonic() - begun:.0f} s after the order to reboot")
