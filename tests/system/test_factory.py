"""Sparks that left the factory amiss or are in use: refused with the remedy, or mended."""

import pytest

from tests.driver.product import DEPLOY, pyinfra
from tests.lab.spark import Handle

RUNTIME, HOST = "sparkwright.machine.runtime.deploy.apply", "sparkwright.machine.host.deploy.apply"
_STARTED = "sudo docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' open-webui"


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
    run = pyinfra(RUNTIME).succeeded()
    assert run.changed
    daemon = spark.run("cat /etc/docker/daemon.json").stdout
    assert "insecure-registries" in daemon
    assert "nvidia-container-runtime" in daemon
    assert "nvidia" in spark.run("sudo docker info --format '{{json .Runtimes}}'").stdout
    assert pyinfra(RUNTIME).succeeded().changed == frozenset()


def test_sudo_that_asks_for_a_password(spark: Handle) -> None:
    spark.reset("sudo-password")
    run = pyinfra(DEPLOY).refused("found sudo that asks for a password")
    assert "Traceback" not in run.output


def test_no_container_of_the_owners_is_ended(spark: Handle) -> None:
    spark.reset("docker-busy")
    before = spark.run(_STARTED).stdout
    assert before.startswith("true ")
    kept = "Docker is not restarted, which would end open-webui"
    pyinfra(RUNTIME).succeeded().says(kept)
    assert "nvidia" in spark.run("sudo docker info --format '{{json .Runtimes}}'").stdout
    assert spark.run(_STARTED).stdout == before
    # It says so until it is done, and does nothing else.
    second = pyinfra(RUNTIME).succeeded().says(kept)
    assert second.changed == frozenset()
    assert spark.run(_STARTED).stdout == before
    # The owner's word.
    pyinfra(RUNTIME, "--data", "docker=restart").succeeded()
    assert spark.run(_STARTED).stdout.startswith("false ")
    last = pyinfra(RUNTIME).succeeded()
    assert "Docker is not restarted" not in last.output
    assert last.changed == frozenset()


def test_a_container_without_the_gpu_ends_the_run_before_downloads(spark: Handle) -> None:
    spark.reset("cuda-unknown-error")
    cause = "CUDA does not start in the container"
    run = pyinfra(DEPLOY).fails("no container gets the GPU", cause, "modprobe nvidia_uvm")
    run.says("failed at: Container runtime | GPU in a container")
    # Neither the engine's image, nor that of the proof, nor weights.
    assert spark.run("sudo docker image ls --quiet").stdout == ""
    assert spark.run("ls -d /opt/qwen36/*tiny*", check=False).returncode


def test_a_driver_that_does_not_answer_is_named(spark: Handle) -> None:
    spark.reset("driver-updated")
    cause = "The NVIDIA driver was updated"
    pyinfra(DEPLOY).refused("nvidia-smi shows no GPU", cause, "Reboot")
    # Whoever leaves the preflight out is told the same by a container.
    pyinfra(RUNTIME).fails(f"no container gets the GPU. {cause}")


def test_the_gpus_clock_is_limited_from_each_boot_on_until_it_is_not(spark: Handle) -> None:
    spark.reset()
    pyinfra(HOST, "--data", "gpu_clock_max_mhz=2200").succeeded()
    assert spark.run("cat /run/lab-gpu-clocks").stdout == "0,2200\n"
    spark.reboot()
    assert spark.run("cat /run/lab-gpu-clocks").stdout == "0,2200\n"
    assert "208/2200" in pyinfra("deploys/status.py").output
    pyinfra(HOST).succeeded()
    assert spark.run("ls /run/lab-gpu-clocks", check=False).returncode
    assert spark.run("systemctl cat gpu-clock.service", check=False).returncode
