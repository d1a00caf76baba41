"""The stand-in of nvidia-smi answers as a GB10's does."""

import subprocess

import pytest

from tests.lab.rootfs import DGX_OS

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
