"""What the runs of a rollout do on a Spark, and what they write down."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.upkeep.rollout import deploy
from tests.makers.engine import FORMER, NEW, SETTINGS, SETTLED, spark
from tests.unit.driven import Driven

OWN = SimpleNamespace(replica="chat", rank=0, is_head=True, peer=None, place="/opt/x")


@pytest.fixture(autouse=True)
def known_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "switch_settings", lambda own, release: SETTINGS)


def switched(driven: Driven, file: Path, least: float | None = None) -> tuple[Any, dict[str, Any]]:
    """Switch, and return the result and the answer."""
    arguments = {"release": NEW, "own": OWN, "answers": str(file), "minimum_speed": least}
    result = driven.run(deploy.switched, **arguments)
    (line,) = file.read_text().splitlines()
    return result, json.loads(line)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    driven = spark(FORMER)
    driven.data["fake_responses"]["systemctl daemon-reload && systemctl start"] = {"success": False}
    result, told = switched(driven, tmp_path / "answers")
    assert result.did_error()
    assert told["reason"] == "it began no switch"


@pytest.mark.parametrize(
    ("measured", "least", "reason"),
    [
        (41.5, None, ""),
        (41.5, 40.5, ""),
        (41.5, 42, "found 41.5 tokens a second in one stream; expected at least 42"),
        (None, 1, "no speed could be measured: refused"),
    ],
)
def test_a_speed_is_told_and_judged(
    tmp_path: Path, measured: float | None, least: float | None, reason: str
) -> None:
    driven = spark(SETTLED)
    driven.state = {
        **(driven.state or {}),
        "engine_api.speed": {"speed": measured, "said": "refused"},
    }
    result, told = switched(driven, tmp_path / "answers", least)
    assert result.did_succeed() is not bool(reason)
    speed = measured if least else None
    assert (told["reason"], told["speed"], told["seconds"]) == (reason, speed, 0.0)
