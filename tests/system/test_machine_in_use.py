"""The first run on a Spark that somebody else uses as well, or that an update has hurt."""

from tests.driver.product import DEPLOY, pyinfra
from tests.lab.spark import Handle

RUNTIME, HOST = "sparkwright.machine.runtime.deploy.apply", "sparkwright.machine.host.deploy.apply"
_STARTED = "sudo docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' open-webui"


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
