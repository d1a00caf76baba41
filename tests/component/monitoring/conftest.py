"""The head of a pair."""

import json
import os
from pathlib import Path

import pytest

from tests.programs import script

STAND_INS = {
    "nvidia-smi": "echo '2405, 61.42, 67, 96, [N/A], [N/A]'",
    "systemctl": "printf 'ActiveState=active\\nNRestarts=3\\n'",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of the head of a pair, whose worker is at 127.0.0.1."""
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        program = tmp_path / "bin" / name
        script(program, f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    fabric = [["192.168.100.11", "192.168.101.11"], ["127.0.0.1", "127.0.0.2"]]
    unit = {"sparks": ["spark-a", "spark-b"], "rank": 0, "fabric": fabric}
    (release / "unit.json").write_text(json.dumps(unit))
    (tmp_path / "current").symlink_to("releases/tiny-1")
    (tmp_path / "metrics").mkdir()
    return tmp_path
