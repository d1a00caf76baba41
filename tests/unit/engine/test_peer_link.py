"""Whom a supervisor accepts at the other end of its link, and what it says until then."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from host.engine.peer_link import Pair, join

RIGHT = {"release": "tiny-1", "spark": "spark-b", "rank": 1}


def of_rank(rank: int) -> Pair:
    return Pair(Path("/r"), "tiny-1", rank, ("spark-a", "spark-b"), ("10.0.0.1", "10.0.0.2"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rank": 0}, "found spark-b with rank 0, expected spark-b with rank 1: run"),
        ({"spark": "spark-c"}, "found spark-c with rank 1, expected spark-b with rank 1: run"),
        ({"release": "tiny-2"}, "spark-b runs release tiny-2, this Spark tiny-1: run"),
        ({"release": None}, "spark-b runs release None, this Spark tiny-1: run"),
    ],
)
def test_no_other_one(change: dict[str, Any], said: str) -> None:
    assert (of_rank(0).objection(RIGHT | change) or "").startswith(said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(113, "No route to host"), "No route to host"),
        # Of what asyncio has gathered there is no number, and so no word of the system's.
        (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
    ],
)
def test_why_there_is_no_session_is_shown(
    monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    shown: list[str] = []

    class Enough(Exception):
        pass

    def show(text: str) -> None:
        shown.append(text)
        if len(shown) == 2:
            raise Enough

    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Pair, "tls", lambda _: None)
    monkeypatch.setattr(asyncio, "open_connection", fail)
    with pytest.raises(Enough):
        asyncio.run(join(of_rank(1), show))
    assert shown[1].startswith(f"waiting for spark-a at 10.0.0.1: {said}")
