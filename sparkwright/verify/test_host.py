"""The host: driver, runtime, folders, secrets."""

import json

import pytest
from testinfra.host import Host

from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Proved


def test_driver(host: Host, target: SparkTarget, proved: Proved) -> None:
    query = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    driver = host.check_output(query).strip()
    assert int(driver.split(", ")[1].split(".")[0]) >= target.settings.driver_minimum
    proved(f"GPU and driver: {driver}")


def test_container_runtime(host: Host, proved: Proved) -> None:
    assert host.exists("nvidia-ctk")
    runtimes = json.loads(host.check_output("docker info --format '{{json .Runtimes}}'"))
    assert "nvidia" in runtimes
    proved(f"Docker {host.docker.server_version()} with the NVIDIA runtime")


def test_memory_guard(host: Host, proved: Proved) -> None:
    service = host.service("earlyoom")
    assert service.is_running
    assert service.is_enabled
    proved("earlyoom guards the memory")


@pytest.mark.parametrize(
    ("folder", "mode"),
    [("", 0o755), ("bin", 0o755), ("cache", 0o700), ("releases", 0o755), ("secrets", 0o700)],
)
def test_layout(host: Host, target: SparkTarget, folder: str, mode: int) -> None:
    found = host.file(f"{target.root}/{folder}".rstrip("/"))
    assert found.is_directory
    assert (found.user, found.group, found.mode) == ("root", "root", mode)


def test_secrets_are_private(host: Host, target: SparkTarget, proved: Proved) -> None:
    folder = f"{target.root}/secrets"
    names = host.file(folder).listdir()
    for name in names:
        secret = host.file(f"{folder}/{name}")
        assert (secret.user, secret.group, secret.mode) == ("root", "root", 0o600), name
    proved(f"secrets are root's alone: {', '.join(names) or 'none'}")
