"""Whom a supervisor accepts at the other end of its link."""

from pathlib import Path
from typing import Any

import pytest

from host.engine.peer_link import Group

RIGHT = {"release": "tiny-1", "spark": "spark-b", "rank": 1}


def of_rank(rank: int) -> Group:
    return Group(Path("/r"), "tiny-1", rank, ("spark-a", "spark-b"), ("10.0.0.1", "10.0.0.2"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rank": 0}, "found spark-b with rank 0, expected spark-b with rank 1: run"),
        ({"spark": "spark-c"}, "found spark-c with rank 1, expected spark-b with rank 1: run"),
        ({"release": "tiny-2"}, "spark-b runs release tiny-2, this Spark tiny-1: run"),
    ],
)
def test_no_other_one(change: dict[str, Any], said: str) -> None:
    assert (of_rank(0).objection(RIGHT | change, 1) or "").startswith(said)
