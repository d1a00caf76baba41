"""The first run on a Spark that somebody else uses as well, or that an update has hurt."""

import pytest

from tests.clock import patience
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, background, pyinfra
from tests.lab.spark import Handle

RUNTIME, HOST = "sparkwright.machine.runtime.deploy.apply", "sparkwright.machine.host.deploy.apply"
_STARTED = "sudo docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' open-webui"


def test_others_at_apt_are_named_and_waited_for(spark: Handle) -> None:
    spark.reset("apt-busy")
    with background(RUNTIME) as run:
        assert run.stdout
        said = []
        for line in run.stdout:
            said.append(line)
            if "waiting for apt" in line:
                spark.run("sudo systemctl stop packagekit.service")
        assert run.wait(patience()) == 0, "".join(said)
    told = "".join(said)
    assert "/var/lib/apt/lists/lock is held by python3 (pid " in told
    assert "packagekit.service), for " in told
    assert "a source of packages failed: " in told
    assert "127.0.0.2:9" in told
    assert spark.run("nvidia-ctk --version").stdout.startswith("NVIDIA Container Toolkit")


def test_others_at_apt_for_too_long_are_named(spark: Handle) -> None:
    spark.reset("apt-busy")
    run = pyinfra(RUNTIME, "--data", "apt_patience_seconds=0")
    held = "nvidia-container-toolkit is not installed: /var/lib/apt/lists/lock is held"
    run.fails(held, "apt_patience_seconds in the group data")


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


def test_a_toolkit_that_refuses_the_hook_is_no_matter(spark: Handle) -> None:
    spark.reset("hook-refuses")
    pyinfra(RUNTIME).succeeded().says("a container gets GPU 0: NVIDIA GB10")
    assert pyinfra(RUNTIME).succeeded().changed == frozenset()


@pytest.mark.parametrize(
    ("variant", "cause", "remedy"),
    [
        ("stale-cdi", "no description of the GPU (CDI)", "nvidia-ctk cdi generate"),
        ("cuda-unknown-error", "CUDA does not start in the container", "modprobe nvidia_uvm"),
    ],
)
def test_a_container_without_the_gpu_ends_the_run_before_downloads(
    spark: Handle, variant: str, cause: str, remedy: str
) -> None:
    spark.reset(variant)
    run = pyinfra(DEPLOY).fails("no container gets the GPU", cause, remedy)
    run.says("failed at: Container runtime | GPU in a container")
    # Neither the engine's image, nor that of the proof, nor weights.
    assert spark.run("sudo docker image ls --quiet").stdout == ""
    assert spark.run("ls -d /opt/qwen36/*tiny*", check=False).returncode


@pytest.mark.parametrize(
    ("variant", "cause", "remedy"),
    [
        ("driver-updated", "The NVIDIA driver was updated", "Reboot"),
        ("driver-not-loaded", "The NVIDIA driver is not loaded", "modprobe nvidia"),
    ],
)
def test_a_driver_that_does_not_answer_is_named(
    spark: Handle, variant: str, cause: str, remedy: str
) -> None:
    spark.reset(variant)
    pyinfra(DEPLOY).refused("nvidia-smi shows no GPU", cause, remedy)
    # Whoever leaves the preflight out is told the same by a container.
    pyinfra(RUNTIME).fails(f"no container gets the GPU. {cause}")


def test_a_kernel_that_keeps_memory_is_a_warning_for_one(spark: Handle) -> None:
    spark.reset("kexec-handover")
    run = pyinfra("sparkwright.machine.preflight.deploy.apply").succeeded()
    run.says("keeps 9.3 GiB for kexec handover, which no engine gets", "kho=off")


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


def test_a_kernel_that_keeps_memory_is_an_error_for_two(pair: Pair) -> None:
    pair.worker.reset("kexec-handover")
    pyinfra(DEPLOY).refused("NCCL cannot register its memory for RDMA", "kho=off")
    pair.worker.reset()
