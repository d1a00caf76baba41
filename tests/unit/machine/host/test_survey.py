"""What the program on a Spark reads for the preflight."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from host.state import docker, machine, sockets
from sparkwright.machine.host.survey import Listener, Survey

INFO: dict[str, Any] = {"ServerVersion": "28.5.1", "Driver": "overlay2"}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What Docker answers, by path; nothing else is there."""
    known: dict[str, Any] = {"/info": INFO, "/containers/json": []}
    monkeypatch.setattr(docker, "get", known.get)
    return known


def survey(root: Path | str = "/nowhere", **asked: Any) -> Survey:
    ask = Survey.ask(root=str(root), **asked)
    return ask.value(json.dumps({"known": machine.read(**ask.arguments)}))


def test_this_machine(answers: dict[str, Any]) -> None:
    answers["/images/sha256:known/json"] = {"Id": "sha256:id"}
    found = survey(images=["r@sha256:other", "sha256:known"])
    assert (found.docker, found.docker_driver, found.image) == ("28.5.1", "overlay2", "sha256:id")
    assert found.kernel.release == os.uname().release
    assert found.kernel.command_line == Path("/proc/cmdline").read_text().strip()
    own = Path("/etc/machine-id").read_text() if Path("/etc/machine-id").exists() else ""
    assert found.machine.startswith(own.strip())
    assert found.machine.endswith(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    assert 0 < found.available <= found.memory
    assert found.serves is None


def test_a_file_in_two_folders_counts_once(tmp_path: Path, answers: dict[str, Any]) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "hub"
    (root / "model@1").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "blob").write_bytes(b"x" * 1000)
    (elsewhere / "other").write_bytes(b"x" * 234)
    (root / "model@1/blob").hardlink_to(elsewhere / "blob")
    folders = ["model@1", str(elsewhere), "/nowhere"]
    assert survey(root, folders=folders).weights == 1234


def test_the_listeners_on_its_ports(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    answers["/containers/json"] = [
        {"Id": "a1", "Labels": {docker.LABEL: "r-1"}},
        {"Id": "b2", "Labels": None},
    ]

    def listener(port: int, command: str, cgroup: str, kind: str = "tcp") -> dict[str, Any]:
        process = {"pid": port + 1, "command": command, "cgroup": cgroup}
        return {"kind": kind, "address": "::", "port": port, "processes": [process]}

    listening = [
        listener(8000, "python3", "/user.slice"),
        # By IPv4 and by IPv6.
        *[listener(18001, "VLLM::APIServer", "/docker/a1")] * 2,
        listener(18002, "nc", "/docker/b2"),
        listener(8001, "haproxy", "/door.service"),
        listener(8000, "dns", "/x", kind="udp"),
        listener(22, "sshd", "/x"),
    ]
    monkeypatch.setattr(sockets, "listening", lambda: listening)
    assert survey(ports=[8000, 8001, 18001, 18002]).listeners == (
        Listener(False, 8000, 8001, "python3"),
        Listener(True, 8001, 8002, "haproxy"),
        Listener(True, 18001, 18002, "VLLM::APIServer"),
        Listener(False, 18002, 18003, "nc"),
    )


# As /proc/meminfo of a Spark with 7.0.0-1019-nvidia shows it: CmaFree, and a CmaTotal of 0.
@pytest.mark.parametrize(
    ("total", "free", "kib"), [(32768, 9783296, 9750528), (0, 0, 0), (65536, 61440, 0)]
)
def test_it_is_what_is_free_beyond_all_areas(
    monkeypatch: pytest.MonkeyPatch, total: int, free: int, kib: int
):
    known = {"CmaTotal": total << 10, "CmaFree": free << 10}
    monkeypatch.setattr(machine, "meminfo", lambda: known)
    assert machine.kernel()["handover"] == kib << 10
    known.clear()
    assert machine.kernel()["handover"] == 0


@pytest.mark.parametrize(("line", "pools"), [("", False), ("0", False), ("529", True)])
def test_the_pools_of_a_driver_that_has_some(
    monkeypatch: pytest.MonkeyPatch, line: str, pools: bool
):
    said = f"Other: 1\nEnableSystemMemoryPools: {line}\n" if line else None
    monkeypatch.setattr(machine, "text", lambda _: said)
    assert machine.kernel()["pools"] is pools


@pytest.mark.parametrize(
    ("info", "folder"),
    [
        ({}, "/var/lib/docker"),
        ({"DockerRootDir": "/data", "DriverStatus": [["kind", "extfs"]]}, "/data"),
        ({"DriverStatus": [["", "io.containerd.snapshotter.v1"]]}, "/var/lib/containerd"),
    ],
)
def test_where_images_lie(info: dict[str, Any], folder: str) -> None:
    assert machine._images(info) == folder
