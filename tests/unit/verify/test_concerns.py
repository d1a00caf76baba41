"""Which Sparks a test of verification runs on."""

from typing import Any

import pytest

from sparkwright.verify.sparks import concerns


def spark(recipe: str | None, *ranks: str, rank: int | None = 0) -> dict[str, Any]:
    return {"spark": "a", "hardware": "lab", "recipe": recipe, "ranks": ranks, "rank": rank}


IDLE = spark(None, rank=None)
ALONE = spark("lab-tiny", "a")
HEAD = spark("lab-tiny", "a", "b")
WORKER = spark("lab-tiny", "b", "a", rank=1)


@pytest.mark.parametrize(
    ("fixtures", "concerned"),
    [
        (["host"], [IDLE, ALONE, HEAD, WORKER]),
        (["host", "release"], [ALONE, HEAD, WORKER]),
        (["host", "fabric"], [HEAD, WORKER]),
        (["host", "api", "release"], [ALONE, HEAD, WORKER]),
        (["api", "release"], [ALONE, HEAD]),
        (["client"], [ALONE, HEAD]),
        (["address"], [ALONE, HEAD]),
        (["api", "fabric", "release"], [HEAD]),
    ],
)
def test_a_test_runs_where_its_fixtures_exist(
    fixtures: list[str], concerned: list[dict[str, Any]]
) -> None:
    assert [each for each in (IDLE, ALONE, HEAD, WORKER) if concerns(fixtures, each)] == concerned
