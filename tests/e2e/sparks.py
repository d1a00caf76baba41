"""A virtual Spark that serves, as tests look at it."""

import time

import pytest

from tests.lab.spark import Handle


def current(spark: Handle) -> str:
    """Return the release that should serve, and boots."""
    return spark.run("basename $(readlink /opt/qwen36/current)").stdout.strip()


def engines_status(spark: Handle) -> str:
    """Return what `systemctl status` says of the engines' units."""
    return spark.run("systemctl status --no-pager -n 5 'vllm@*'", check=False).stdout


def forget(spark: Handle) -> None:
    """Have a Spark forget its restarts and power cuts: tests cause more than an hour may have."""
    units = "systemctl reset-failed 'vllm@*'"
    spark.run(f'sudo sh -c "{units}; rm -f /opt/qwen36/state/hard-downs"')


def until(spark: Handle, command: str, timeout: float) -> None:
    """Wait until a command succeeds on a Spark; fail the test after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while (answer := spark.run(command, check=False)).returncode:
        if time.monotonic() > deadline:
            said = f"{answer.stdout}{answer.stderr}\n{engines_status(spark)}"
            pytest.fail(f"not within {timeout} s on {spark.name}: {command}\n{said}")
        time.sleep(1)
