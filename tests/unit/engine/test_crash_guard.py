"""What tells an accident from a Spark that its engine brings down; each engine has its own seat."""

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


@pytest.mark.parametrize(
    "boots",
    [
        # Two within an hour are too many, once.
        [
            ("1", 0, False),
            ("2", 100, False),
            ("3", 3000, True),
            ("3", 3010, False),
            ("4", 3020, False),
        ],
        # Two in more than an hour are accidents.
        [("1", 0, False), ("2", 7200, False), ("3", 10800, False), ("4", 14400, False)],
        # A Spark without network may boot with any time: what lies ahead is not within the hour.
        [("1", 5000, False), ("2", 5000, False), ("3", 4999, False)],
        # A killed supervisor is no hard down.
        [("1", 0, False), ("1", 1, False), ("1", 2, False), ("1", 3, False)],
    ],
)
def test_which_boots_do_not_start(tmp_path: Path, boots: list[tuple[str, float, bool]]) -> None:
    for boot, now, refused in boots:
        assert crash(tmp_path, f"boot {boot}", now) is refused


def test_an_orderly_end_is_no_hard_down_and_takes_no_mark_any_more(tmp_path: Path) -> None:
    for boot in ("1", "2", "3", "4"):
        boots = CrashGuard(tmp_path, "tiny", boot)
        assert not boots.too_many_hard_downs(0)
        boots.mark()
        boots.clear()
        boots.mark()
        assert not boots._marker.exists()


@pytest.mark.parametrize("boot", ["boot 1", "boot 2"])
def test_a_switch_that_lost_the_power_is_over(tmp_path: Path, boot: str) -> None:
    """No run may come to make it again; it is no hard end of an engine."""
    (tmp_path / "state/standby@new").mkdir(parents=True)
    switch = tmp_path / "state/switch.json"
    switch.write_text(json.dumps({"release": "new", "boot": "boot 1"}))
    assert not CrashGuard(tmp_path, "previous", boot).too_many_hard_downs(0)
    left = {path.name for path in (tmp_path / "state").iterdir()}
    assert left == ({"switch.json", "standby@new"} if boot == "boot 1" else set())


def test_a_power_cut_while_two_run_side_by_side_is_one(tmp_path: Path) -> None:
    for release in ("previous", "new"):
        CrashGuard(tmp_path, release, "boot 1").mark()
    assert not CrashGuard(tmp_path, "previous", "boot 2").too_many_hard_downs(0)
    # The end of one leaves the mark of the other.
    for release in ("previous", "new"):
        CrashGuard(tmp_path, release, "boot 3").mark()
    CrashGuard(tmp_path, "previous", "boot 3").clear()
    marks = [path.name for path in (tmp_path / "state").glob("running@*")]
    assert marks == ["running@new"]


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


def test_one_power_cut_is_one_for_each_engine(tmp_path: Path) -> None:
    """Both count it at the same boot, each by itself; two supervisors of one record count twice."""
    roots = (tmp_path, tmp_path / "seats/embed")
    for boot, now, refused in (("1", 0, False), ("2", 100, False), ("3", 200, True)):
        assert [crash(root, f"boot {boot}", now) for root in roots] == [refused, refused]
