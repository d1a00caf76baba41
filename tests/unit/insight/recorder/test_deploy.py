"""The flight recorder's unit, and the last hard end as a run reads it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder import recorder as program
from host.insight.recorder.judge import GONE
from host.state.status import hard_down
from sparkwright.common.placed import unit_names
from sparkwright.common.ports import RECORDER_PORT
from sparkwright.insight.doctor.checkup import HardDown
from sparkwright.insight.monitoring.deploy import RECORDER as UNIT
from sparkwright.plan.causes.thresholds import EARLYOOM
from tests.security.test_units import directives, text

DOWN: dict[str, Any] = {
    "at": time.time() - 300.0,
    "back": time.time() - 100.0,
    "cause": "heat",
    "why": "the GPU had 91 °C",
    "lines": ["1795819970 13602 61 91 2405 19410 0 3.5 98 0 72959 120034"],
}


def read(root: Path, content: object) -> Any:
    (root / "state").mkdir(exist_ok=True)
    (root / "state/last-down.json").write_text(
        content if isinstance(content, str) else json.dumps(content)
    )
    return hard_down(str(root))


def test_the_last_hard_end_is_told_for_a_day_to_both_seats(tmp_path: Path) -> None:
    assert hard_down(str(tmp_path)) is None
    found = read(tmp_path, DOWN)
    assert found == DOWN
    assert HardDown.model_validate_json(json.dumps(found)).cause == "heat"
    (tmp_path / "seats/second/state").mkdir(parents=True)
    assert hard_down(str(tmp_path / "seats/second")) == DOWN
    assert read(tmp_path, DOWN | {"back": time.time() - 90_000}) is None
    # The clock was set back since.
    assert read(tmp_path, DOWN | {"back": time.time() + 100}) is not None


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "null", "[]", "7", 100_000 * "[", '{"at": 1}', "\x00\x00"),
        *(DOWN | {"at": float("nan")}, DOWN | {"back": float("inf")}, DOWN | {"at": "x"}),
        *(DOWN | {"lines": None}, DOWN | {"lines": 7}, DOWN | {"at": 10**400}),
    ],
)
def test_what_is_damaged_is_no_hard_end(tmp_path: Path, content: object) -> None:
    assert read(tmp_path, content) is None


def test_what_is_told_is_bounded(tmp_path: Path) -> None:
    found = read(
        tmp_path, DOWN | {"cause": 99 * "x", "why": 9999 * "y", "lines": 999 * [999 * "z"]}
    )
    assert [len(found[name]) for name in ("cause", "why", "lines")] == [99, 200, 40]
    assert {len(each) for each in found["lines"]} == {200}


def test_the_unit_runs_it_whatever_the_engine_does() -> None:
    assert UNIT in unit_names()
    assert "\nOOMScoreAdjust=-900\n" in text(UNIT)
    assert directives(UNIT, "WantedBy") == ["multi-user.target"]
    (start,) = [each for each in text(UNIT).splitlines() if each.startswith("ExecStart=")]
    assert " record /opt/qwen36 192.168.100.11 192.168.100.12 < <(" in start
    # What ends in order is no hard end.
    assert "\nExecStopPost=/usr/bin/rm -f /opt/qwen36/state/recording\n" in text(UNIT)


def test_what_stands_in_two_places_is_the_same() -> None:
    assert program.PORT == RECORDER_PORT
    assert GONE == EARLYOOM
