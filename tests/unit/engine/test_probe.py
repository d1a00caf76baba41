"""When an engine that gives no token is busy, and when it hangs."""

import asyncio
from collections.abc import Callable

import pytest

from host.common import probe

TOKEN = "token"


class Looks:
    """An engine that at each look gives a token, or has counters that say something or nothing."""

    def __init__(self, script: list[str | None], error: Callable[[], Exception]) -> None:
        self.left, self.error = script, error

    async def token(self) -> None:
        if self.left[0] != TOKEN:
            raise self.error()
        self.left.pop(0)

    async def counters(self) -> list[str] | None:
        found = self.left.pop(0)
        return None if found is None else [found]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTERVAL", "TOKEN_DEADLINE", "COUNTERS_DEADLINE"):
        monkeypatch.setattr(probe, name, 0.01)


@pytest.mark.parametrize(
    "looks",
    [
        ["1", "1", "1"],
        # The first look has nothing to compare with.
        [None, None, None],
        ["1", "2", "2", "2", "2"],
        ["1", "1", "2", "2", "2", "2"],
        # A look without counters hides neither what moved since, nor that nothing has.
        ["1", None, "2", "2", "2", "2"],
        ["1", None, "1"],
        ["1", None, "2", None, "3", None, None, None],
        # What moved before the last token tells nothing.
        ["1", TOKEN, "2", "2", "2"],
        ["1", "1", TOKEN, "2", "2", "2"],
    ],
)
def test_three_looks_in_a_row_that_see_nothing_move(looks: list[str | None]) -> None:
    engine = Looks(looks, lambda: ValueError("busy"))
    reason = asyncio.run(probe.watch(engine, 3))  # type: ignore[arg-type]
    assert reason.endswith("(busy), 3 times in a row")
    assert engine.left == []


def test_what_the_fabric_may_be_to_blame_for_does_not_count() -> None:
    engine = Looks(["1"] * 8, lambda: ValueError("late"))
    silent = iter([True] * 5 + [False] * 3)
    reason = asyncio.run(probe.watch(engine, 3, lambda: next(silent)))  # type: ignore[arg-type]
    assert reason.endswith("(late), 3 times in a row")
    assert engine.left == []
    wrong = Looks(["1", "1"], lambda: probe.NoTokenError("status 500"))
    assert asyncio.run(probe.watch(wrong, 2, lambda: True)) == "status 500, 2 times in a row"  # type: ignore[arg-type]


def test_an_answer_that_is_no_token_is_no_work() -> None:
    engine = Looks(["1", "2"], lambda: probe.NoTokenError("status 500"))
    assert asyncio.run(probe.watch(engine, 2)) == "status 500, 2 times in a row"  # type: ignore[arg-type]
