"""Every factory variant: refused before any change with the remedy, or mended."""

import pytest

from tests.e2e.conftest import DEPLOY, pyinfra


@pytest.mark.parametrize(
    ("variant", "found"),
    [
        ("no-driver", "nvidia-smi shows no GPU"),
        ("driver-570", "NVIDIA driver 570.124.06, at least 580 is needed"),
        ("docker-old", "at least 25 is needed"),
        ("disk-nearly-full", "to spare"),
        ("port-taken", "port 8000 is taken by python3"),
    ],
)
def test_refused_before_any_change(spark, variant, found):
    spark.reset(variant)
    run = pyinfra(DEPLOY)
    assert run.status == 1
    assert found in run.output
    assert run.changed == frozenset()
    assert "continue with: pyinfra inventory/lab.py deploys/spark.py" in run.output
    assert spark.run("ls /opt/qwen36", check=False).returncode
    assert found in pyinfra(DEPLOY, "--dry").output


def test_a_missing_toolkit_is_installed(spark):
    spark.reset("no-toolkit")
    run = pyinfra("deploys.steps.runtime.apply").succeeded()
    assert run.changed
    daemon = spark.run("cat /etc/docker/daemon.json").stdout
    assert "insecure-registries" in daemon
    assert "nvidia-container-runtime" in daemon
    assert "nvidia" in spark.run("sudo docker info --format '{{json .Runtimes}}'").stdout
    assert pyinfra("deploys.steps.runtime.apply").succeeded().changed == frozenset()


def test_sudo_that_asks_for_a_password(spark):
    spark.reset("sudo-password")
    run = pyinfra(DEPLOY)
    assert run.status == 1
    assert "found sudo that asks for a password" in run.output
    assert "Traceback" not in run.output
    assert run.changed == frozenset()
