"""The choice of an engine on disk, where no door runs."""

import subprocess
from pathlib import Path

import pytest

from host.door.door import Door, DoorError, main
from host.engine.startup import keep
from tests.programs import host_program


def test_the_files_stand_without_a_running_door(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(line: str) -> list[str]:
        assert main([str(tmp_path), *line.split()]) == 0
        return capsys.readouterr().out.splitlines()

    choice = tmp_path / "door" / "choice.map"
    with pytest.raises(DoorError, match="offer it first"):
        said("prefer a-1")
    with pytest.raises(DoorError, match="expected a release"):
        Door(tmp_path).offer("a\n server evil")
    assert main([str(tmp_path), "offer", "a-1", "18001"]) == 2
    assert said("offer a-1") == said("offer b-2") == said("offer b-2") == []
    assert said("engines") == ["a-1", "b-2"]
    said("prefer b-2")
    assert said("engines") == ["b-2", "a-1"]
    assert Door(tmp_path).busy("b-2") == 0
    Door(tmp_path).hold()
    for line, hold in (("sync", "yes"), ("prepare", "no")):
        said(line)
        assert f"hold {hold}" in choice.read_text()
    for line, left in (("forget b-2", ["a-1"]), ("forget b-2", ["a-1"]), ("forget a-1", [])):
        said(line)
        assert said("engines") == left
    # The second choice moves up.
    for line in ("offer a-1", "offer b-2", "forget a-1", "offer c-3"):
        said(line)
    assert said("engines") == ["b-2", "c-3"]
    for line in ("forget c-3", "offer d-4"):
        said(line)
    assert said("engines")[0] == "b-2"
    names = {file.name for file in (tmp_path / "door").iterdir()}
    assert names == {"engines.cfg", "choice.map", "lock"}


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


@pytest.mark.parametrize("damaged", [b"", bytes(200), b"\xff\xfe\n"])
def test_nor_does_one_with_damaged_files_stay_shut(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "current").symlink_to("releases/tiny-1")
    door = Door(tmp_path)
    door.prepare()
    for name in ("engines.cfg", "choice.map"):
        (tmp_path / "door" / name).write_bytes(damaged)
    door.prepare()
    assert door.engines() == ["tiny-1"]
    door.prefer("tiny-1")


def test_a_hold_and_when_to_ask_again_follow_from_starts(tmp_path: Path) -> None:
    release = tmp_path / "releases" / "tiny-1"
    for folder in (release, tmp_path / "state"):
        folder.mkdir(parents=True)
    (release / "release.json").write_text('{"recipe": "r", "image": "i"}')
    (release / "unit.json").write_text('{"start_timeout": 580}')
    (tmp_path / "current").symlink_to("releases/tiny-1")
    door, config = Door(tmp_path), tmp_path / "door/engines.cfg"
    choice = tmp_path / "door/choice.map"

    def follows(*seconds: float) -> tuple[list[str], str]:
        for each in seconds:
            keep(tmp_path, "tiny-1", each, "serving", [])
        door.sync()
        bounds = [each for each in config.read_text().splitlines() if "retries" in each]
        return [each.split()[1] for each in bounds], choice.read_text().split("again ")[1].strip()

    assert follows() == (["580"], "10")
    assert follows(49.2) == (["580"], "50")
    # Never less than what a switch to another one may need, and never more than the recipe allows.
    assert follows(48, 47) == (["300"], "50")
    assert follows(121) == (["363"], "130")
    assert follows(400) == (["580"], "400")
    # Of a release of which nothing is known, the door has its own bound.
    door.offer("a-1")
    door.forget("tiny-1")
    assert follows() == ([], "10")


def test_a_reload_of_a_door_that_is_gone_fails(tmp_path: Path) -> None:
    """systemd would take any other end for a door that has its new files."""
    # Linux has no process ID above 2^22.
    run = host_program("door", tmp_path, "reload", 2**22 + 1)
    done = subprocess.run(run, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("door: ")


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("", False),
        ("0 ann:1:", False),
        ("0 ann:99999999999:", True),
        ("x", True),
        ("0 ann:y", True),
    ],
)
def test_a_damaged_line_of_the_keys_counts_as_one_that_opened(
    tmp_path: Path, line: str, counts: bool
) -> None:
    for folder, text in (("door", f"{line}\n"), ("new", "1 ann:99999999999:\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "keys").write_text(text)
    Door(tmp_path).compare(tmp_path / "new")
    assert (tmp_path / "door/revoked").exists() is counts
