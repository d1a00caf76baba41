"""The choice of an engine on disk, where no door runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from door import Door, DoorError, Engine

from tests.unit.door import FILES


def test_the_files_stand_without_a_running_door(tmp_path: Path) -> None:
    door = Door(tmp_path, tmp_path / "run")
    with pytest.raises(DoorError, match="offer it first"):
        door.prefer("a-1")
    with pytest.raises(DoorError, match="expected a release"):
        door.offer("a\n server evil", 18000)
    door.offer("a-1", 18001)
    door.offer("b-2", 18002)
    door.offer("b-2", 18002)
    assert door.engines() == [Engine("a-1", 18001), Engine("b-2", 18002)]
    door.prefer("b-2")
    door.hold()
    assert Door(tmp_path).engines() == [Engine("b-2", 18002), Engine("a-1", 18001)]
    assert door.busy("a-1") == 0
    assert "hold yes" in (tmp_path / "door" / "choice.map").read_text()
    door.prepare()
    assert "hold no" in (tmp_path / "door" / "choice.map").read_text()
    door.forget("b-2")
    door.forget("b-2")
    assert door.engines() == [Engine("a-1", 18001)]
    door.forget("a-1")
    assert door.engines() == []
    assert {file.name for file in (tmp_path / "door").iterdir()} == {
        *("engines.cfg", "choice.map", "lock")
    }


def test_a_door_without_files_knows_what_should_serve(tmp_path: Path) -> None:
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    (release / "release.json").write_text('{"port": 18321}')
    (tmp_path / "current").symlink_to("releases/tiny-1")
    run = [sys.executable, str(FILES / "door.py"), str(tmp_path)]
    subprocess.run([*run, "prepare"], check=True)
    said = subprocess.run([*run, "engines"], check=True, capture_output=True, text=True)
    assert said.stdout == "tiny-1 18321\n"
    assert "first tiny-1" in (tmp_path / "door" / "choice.map").read_text()
    refused = subprocess.run([*run, "prefer", "other"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("door.py: found no engine other")
