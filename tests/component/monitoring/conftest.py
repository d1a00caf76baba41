"""The head of a pair."""

import json
import os
from pathlib import Path

import pytest

from host.state import engines, gpu, readers
from tests.programs import script

# What nvidia-smi says of the fields that files/host/state/gpu.py asks for.
GB10 = "NVIDIA GB10, 580.173.02, [N/A], [N/A], [N/A], 2405, 61.42, 67, 96, 0x0"
UNIT = r"Id=vllm@tiny-1.service\nActiveState=active\nNRestarts=3\n"
STAND_INS = {
    "nvidia-smi": f"echo '{GB10}'",
    "systemctl": f"printf '{UNIT}'; printf '\\n{UNIT}' | sed s/tiny/other/",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of the head of a pair, whose worker is at 127.0.0.1."""
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        program = tmp_path / "bin" / name
        script(program, f"#!/bin/sh\n{text}\n")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    # In this process, too, and anew in each test.
    monkeypatch.setitem(readers._ENVIRONMENT, "PATH", path)
    monkeypatch.setattr(gpu, "read", gpu.read.__wrapped__)
    monkeypatch.setattr(engines, "_units", engines._units.__wrapped__)
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    fabric = [["192.168.100.11", "192.168.101.11"], ["127.0.0.1", "127.0.0.2"]]
    unit = {"sparks": ["spark-a", "spark-b"], "rank": 0, "fabric": fabric}
    (release / "unit.json").write_text(json.dumps(unit))
    (tmp_path / "current").symlink_to("releases/tiny-1")
    (tmp_path / "metrics").mkdir()
    return tmp_path
