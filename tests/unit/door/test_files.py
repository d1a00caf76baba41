"""The choice of an engine on disk, where no door runs."""

import subprocess
from pathlib import Path

import pytest

from host.door.door import Door, DoorError, main
from tests.programs import host_program


def test_the_files_stand_without_a_running_door(tmp_path: Path) -> None:
    door = Door(tmp_path, tmp_path / "run")
    with pytest.raises(DoorError, match="offer it first"):
        door.prefer("a-1")
    with pytest.raises(DoorError, match="expected a release"):
        door.offer("a\n server evil")
    door.offer("a-1")
    door.offer("b-2")
    door.offer("b-2")
    assert door.engines() == ["a-1", "b-2"]
    door.prefer("b-2")
    door.hold()
    assert Door(tmp_path).engines() == ["b-2", "a-1"]
    assert door.busy("a-1") == 0
    assert "hold yes" in (tmp_path / "door" / "choice.map").read_text()
    door.prepare()
    assert "hold no" in (tmp_path / "door" / "choice.map").read_text()
    door.forget("b-2")
    door.forget("b-2")
    assert door.engines() == ["a-1"]
    door.forget("a-1")
    assert door.engines() == []
    # The second choice moves up.
    for name in ("a-1", "b-2"):
        door.offer(name)
    door.forget("a-1")
    door.offer("c-3")
    assert door.engines() == ["b-2", "c-3"]
    door.forget("c-3")
    door.offer("d-4")
    assert door.engines()[0] == "b-2"
    assert {file.name for file in (tmp_path / "door").iterdir()} == {
        *("engines.cfg", "choice.map", "lock")
    }


def test_a_door_without_files_knows_what_should_serve(tmp_path: Path) -> None:
    release = tmp_path / "releases" / "tiny-1"
    release.mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/tiny-1")
    run = host_program("door", tmp_path)
    subprocess.run([*run, "prepare"], check=True)
    said = subprocess.run([*run, "engines"], check=True, capture_output=True, text=True)
    assert said.stdout == "tiny-1\n"
    assert "first tiny-1" in (tmp_path / "door" / "choice.map").read_text()
    refused = subprocess.run([*run, "prefer", "other"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("door: found no engine other")


def test_its_commands_are_what_a_deploy_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> list[str]:
        assert main([str(tmp_path), *words]) == 0
        return capsys.readouterr().out.splitlines()

    assert said("offer", "a-1") == said("offer", "b-2") == []
    assert said("engines") == ["a-1", "b-2"]
    said("prefer", "b-2")
    assert said("engines") == ["b-2", "a-1"]
    assert said("busy", "b-2") == ["0"]
    choice = tmp_path / "door" / "choice.map"
    said("hold")
    assert "hold yes" in choice.read_text()
    said("sync")
    assert "hold yes" in choice.read_text()
    said("prepare")
    assert "hold no" in choice.read_text()
    said("forget", "b-2")
    assert said("engines") == ["a-1"]
    assert main([str(tmp_path), "offer", "a-1", "18001"]) == 2


def test_a_reload_of_a_door_that_is_gone_fails(tmp_path: Path) -> None:
    """systemd would take any other end for a door that has its new files."""
    # Linux has no process ID above 2^22.
    run = host_program("door", tmp_path, "reload", 2**22 + 1)
    done = subprocess.run(run, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("door: ")
