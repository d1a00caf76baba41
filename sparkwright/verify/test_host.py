"""The host: driver, runtime, folders, secrets."""

import json

import pytest
from testinfra.host import Host

from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Proved


def test_driver(host: Host, target: SparkTarget, proved: Proved) -> None:
    driver = host.check_output(
        "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    ).strip()
    assert int(driver.split(", ")[1].split(".")[0]) >= target.settings.driver_minimum
    proved(f"GPU and driver: {driver}")


def test_container_runtime(host: Host, proved: Proved) -> None:
    assert host.run("nvidia-ctk --version").rc == 0
    runtimes = json.loads(host.check_output("docker info --format '{{json .Runtimes}}'"))
    assert "nvidia" in runtimes
    version = host.check_output("docker version --format '{{.Server.Version}}'").strip()
    proved(f"Docker {version} with the NVIDIA runtime")


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
    secrets = host.check_output(
        f"find {target.root}/secrets -type f -printf '%f %U:%G %m\\n'"
    ).splitlines()
    assert all(line.endswith(" 0:0 600") for line in secrets), secrets
    proved(f"secrets: {', '.join(secrets) or 'none'}")
