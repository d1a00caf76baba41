"""Whether a host has doors with keys, before a run makes new ones."""

import subprocess
from pathlib import Path

import pytest

from sparkwright.door.state import keyed_script, parse_keyed


def read(root: Path) -> list[str]:
    done = subprocess.run(
        ["sh", "-c", keyed_script(str(root))], capture_output=True, text=True, check=True
    )
    return parse_keyed(done.stdout.splitlines())


def test_a_door_without_keys_has_none(tmp_path: Path) -> None:
    root = tmp_path / "my sparks"
    assert read(root) == []
    (root / "door").mkdir(parents=True)
    (root / "door/door.cfg").write_text("x")
    # All of the fleet's keys are for other doors.
    (root / "gateway/door").mkdir(parents=True)
    (root / "gateway/door/keys").touch()
    assert read(root) == []


def test_doors_with_keys_are_named(tmp_path: Path) -> None:
    for name in ("door", "gateway/door"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "keys").write_text("HASH owner:9999999999\n")
    assert read(tmp_path) == [f"{tmp_path}/door", f"{tmp_path}/gateway/door"]


def test_what_was_not_read_to_the_end_is_an_error() -> None:
    for output in ([], ["/opt/qwen36/door"]):
        with pytest.raises(ValueError, match="expected"):
            parse_keyed(output)
