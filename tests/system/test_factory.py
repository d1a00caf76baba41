"""Sparks that left the factory amiss: refused before any change with the remedy, or mended."""

import pytest

from tests.driver.product import DEPLOY, pyinfra
from tests.lab.spark import Handle


@pytest.mark.parametrize(
    ("variant", "found"),
    [("disk-nearly-full", "to spare"), ("port-taken", "port 8000 is taken by python3")],
)
def test_refused_before_any_change(spark: Handle, variant: str, found: str) -> None:
    spark.reset(variant)
    run = pyinfra(DEPLOY)
    run.refused(found, "continue with: pyinfra inventory/lab.py deploys/spark.py")
    assert spark.run("ls /opt/qwen36", check=False).returncode


def test_a_dry_run_says_so_too(spark: Handle) -> None:
    spark.reset("no-driver")
    assert "nvidia-smi shows no GPU" in pyinfra(DEPLOY, "--dry").output


def test_a_missing_toolkit_is_installed(spark: Handle) -> None:
    spark.reset("no-toolkit")
    run = pyinfra("sparkwright.machine.runtime.deploy.apply").succeeded()
    assert run.changed
    daemon = spark.run("cat /etc/docker/daemon.json").stdout
    assert "insecure-registries" in daemon
    assert "nvidia-container-runtime" in daemon
    assert "nvidia" in spark.run("sudo docker info --format '{{json .Runtimes}}'").stdout
    assert pyinfra("sparkwright.machine.runtime.deploy.apply").succeeded().changed == frozenset()


def test_sudo_that_asks_for_a_password(spark: Handle) -> None:
    spark.reset("sudo-password")
    run = pyinfra(DEPLOY).refused("found sudo that asks for a password")
    assert "Traceback" not in run.output
