"""What a switch looks at before it begins."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from host.engine.switch.check import DISK, Refusal, check

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize("full", ["root", "docker"])
def test_every_disk_that_an_engine_writes_to_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    docker, root = tmp_path / "docker", tmp_path / "root"
    release = root / "releases/tiny-1"
    release.mkdir(parents=True)
    docker.mkdir()
    (release / "unit.json").write_text("{}")
    (release / "release.json").write_text(json.dumps({"port": 1, "checkpoints": {}}))
    (release / "bin").mkdir()
    (release / "bin/engine").touch()
    monkeypatch.setattr("host.engine.switch.check.DOCKER", docker)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: Usage(0, 0, DISK - (path == tmp_path / full))
    )
    with pytest.raises(Refusal, match=f"1.0 GB are free at {tmp_path / full}; expected 1"):
        check(root, "tiny-1")
