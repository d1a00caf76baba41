"""What tells an accident from a Spark that its engine brings down."""

import json
from pathlib import Path

import pytest

from host.engine.crash_guard import CrashGuard


def crash(root: Path, boot: str, now: float) -> bool:
    """One boot: whether it does not start; else its engine runs until the power is cut."""
    boots = CrashGuard(root, "tiny", boot)
    if boots.too_many_hard_downs(now):
        return True
    boots.mark()
    return False


def test_two_within_an_hour_are_too_many_once(tmp_path: Path) -> None:
    assert not crash(tmp_path, "boot 1", 0)
    assert not crash(tmp_path, "boot 2", 100)
    assert crash(tmp_path, "boot 3", 3000)
    assert not crash(tmp_path, "boot 3", 3010)
    assert not crash(tmp_path, "boot 4", 3020)


def test_two_in_more_than_an_hour_are_accidents(tmp_path: Path) -> None:
    assert not crash(tmp_path, "boot 1", 0)
    for boot in range(2, 5):
        assert not crash(tmp_path, f"boot {boot}", boot * 3600)


def test_a_clock_that_was_set_back_makes_no_second_one(tmp_path: Path) -> None:
    """A Spark without network may boot with any time: what lies ahead is not within the hour."""
    assert not crash(tmp_path, "boot 1", 5000)
    assert not crash(tmp_path, "boot 2", 5000)
    assert not crash(tmp_path, "boot 3", 4999)


def test_an_orderly_end_is_no_hard_down(tmp_path: Path) -> None:
    for boot in ("1", "2", "3", "4"):
        boots = CrashGuard(tmp_path, "tiny", boot)
        assert not boots.too_many_hard_downs(0)
        boots.mark()
        boots.clear()


def test_a_mark_that_comes_after_the_end_is_none(tmp_path: Path) -> None:
    boots = CrashGuard(tmp_path, "tiny", "1")
    boots.clear()
    boots.mark()
    assert not boots._marker.exists()


def test_a_killed_supervisor_is_no_hard_down(tmp_path: Path) -> None:
    for now in range(4):
        assert not crash(tmp_path, "the same boot", now)


def test_a_power_cut_while_two_run_side_by_side_is_one(tmp_path: Path) -> None:
    for release in ("previous", "new"):
        CrashGuard(tmp_path, release, "boot 1").mark()
    assert not CrashGuard(tmp_path, "previous", "boot 2").too_many_hard_downs(0)


def test_the_end_of_one_leaves_the_mark_of_the_other(tmp_path: Path) -> None:
    for release in ("previous", "new"):
        CrashGuard(tmp_path, release, "boot 1").mark()
    CrashGuard(tmp_path, "previous", "boot 1").clear()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["running@new"]


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"boot": "an'])
def test_a_marker_that_is_damaged_counts(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    for expected in (False, True):
        (tmp_path / "state/running@tiny").write_text(content)
        assert CrashGuard(tmp_path, "tiny", "boot").too_many_hard_downs(0) is expected


def test_a_damaged_record_is_an_empty_one(tmp_path: Path) -> None:
    crash(tmp_path, "boot 1", 0)
    (tmp_path / "state/hard-downs").write_text("{")
    assert not crash(tmp_path, "boot 2", 0)
    assert json.loads((tmp_path / "state/hard-downs").read_text()) == [0]
