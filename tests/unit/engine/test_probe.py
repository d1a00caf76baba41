"""When an engine that gives no token is busy, and when it hangs."""

import asyncio
from collections.abc import Callable
from itertools import accumulate, cycle, pairwise
from math import inf

import pytest

from host.common import probe
from sparkwright.declared.recipe.loader import load_recipe
from tests.unit.engine.virtual_time import now, run

TOKEN = "token"
# The moments at which something begins: a probe of an idle engine comes every 6.1 s, two looks are
# 6 s apart.
MOMENTS = [100.35 + each * 1.1 for each in range(16)]


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


class Steps:
    """An engine that makes steps for a prompt, and gives a token when it is done with that.

    As vLLM does, it counts a step when that has ended, and tells of it while the next one runs.

    Args:
        begin: when the prompt comes; before, and after its last step, the engine is idle.
        steps: the seconds of each.
        hangs: the moment from which on nothing moves.
        refuses: whether a token is refused every other time (503), instead of being late.
        delays: the seconds that each answer of the counters takes, in turn.
    """

    def __init__(
        self,
        begin: float,
        steps: list[float],
        hangs: float = inf,
        refuses: bool = False,
        delays: tuple[float, ...] = (0.0,),
    ) -> None:
        self.times = list(accumulate(steps, initial=begin))
        self.hangs = hangs
        self.refuses = cycle([refuses, False])
        self.delays = cycle(delays)

    async def token(self) -> None:
        if next(self.refuses):
            raise ValueError("status 503")
        if self.times[0] <= now() < self.times[-1]:
            await asyncio.sleep(self.times[-1] - now())
        await asyncio.sleep(0.1 if now() < self.hangs else inf)

    async def counters(self) -> list[str] | None:
        await asyncio.sleep(next(self.delays))
        ended = sum(each <= min(now(), self.hangs) for each in self.times[1:])
        return [f"vllm:kv_cache_usage_perc {ended}"]


def watched(engine: Steps, longest_step: float) -> tuple[str, float]:
    """Return why, and when, the watch of an engine ends; "" if that outlives its steps."""

    async def watch() -> tuple[str, float]:
        end = min(engine.times[-1], engine.hangs) + 200
        try:
            async with asyncio.timeout(end):
                return await probe.watch(engine, longest_step), now()  # type: ignore[arg-type]
        except TimeoutError:
            return "", now()

    return run(watch())


def looked(looks: Looks, excused: Callable[[], bool] = lambda: False) -> str:
    return run(probe.watch(looks, 0, excused))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "looks",
    [
        ["1", "1", "1"],
        # The first look has nothing to compare with.
        [None, None, None],
        ["1", "2", "2", "2", "2"],
        ["1", None, "1"],
        # What moved before the last token tells nothing.
        ["1", TOKEN, "2", "2", "2"],
        # Twice as many as it has survived.
        ["1", "1", "2", "2", "2", "2", "2"],
        ["1", "1", TOKEN, "2", "2", "2", "2"],
        # A look without counters hides neither what moved since, nor that nothing has.
        ["1", None, "2", "2", "2", "2", "2"],
        ["1", None, "2", None, "3", None, None, None, None],
    ],
)
def test_three_looks_in_a_row_that_see_nothing_move(looks: list[str | None]) -> None:
    engine = Looks(looks, lambda: ValueError("busy"))
    assert "(busy)" in looked(engine)
    assert engine.left == []


def test_what_the_fabric_may_be_to_blame_for_does_not_count() -> None:
    engine = Looks(["1"] * 8, lambda: ValueError("late"))
    silent = iter([True] * 5 + [False] * 3)
    reason = looked(engine, lambda: next(silent))
    assert reason.endswith("(late), 3 times in a row")
    assert engine.left == []
    wrong = Looks(["1"] * 3, lambda: probe.NoTokenError("status 500"))
    assert looked(wrong, lambda: True) == "status 500, 3 times in a row"


@pytest.mark.parametrize("longest_step", [0, 60])
def test_an_answer_that_is_no_token_is_no_work(longest_step: float) -> None:
    """Nor is it explained by a long step."""
    # Two are forgiven.
    engine = Looks(["1", "2", TOKEN, "1", "2", "3"], lambda: probe.NoTokenError("status 500"))
    reason = run(probe.watch(engine, longest_step))  # type: ignore[arg-type]
    assert (reason, engine.left) == ("status 500, 3 times in a row", [])


@pytest.mark.parametrize("seconds", [12, 19, 60])
@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("delays", [(0.0,), (1.9, 0.0), (0.0, 0.0, 1.9)])
def test_no_step_that_a_recipe_allows_ends_an_engine(
    seconds: float, refuses: bool, delays: tuple[float, ...]
) -> None:
    """Whenever a prompt of one step or of many comes: all phases of steps and looks."""
    for moment in MOMENTS:
        for count in (1, 10):
            engine = Steps(moment, [seconds] * count, refuses=refuses, delays=delays)
            assert watched(engine, seconds)[0] == ""


@pytest.mark.parametrize("seconds", [30, 60])
def test_a_step_that_a_recipe_does_not_allow_ends_it(seconds: float) -> None:
    """What the test above shows is not so by itself."""
    assert all(watched(Steps(moment, [seconds] * 10), 10)[0] for moment in MOMENTS)


@pytest.mark.parametrize(("longest_step", "seconds"), [(0, 24), (10, 24), (12, 30), (60, 78)])
@pytest.mark.parametrize("busy", [False, True])
def test_a_hang_is_found_in_its_time(longest_step: float, seconds: float, busy: bool) -> None:
    """When the engine was idle, and in the middle of a prompt."""
    assert probe.found_within(probe.patience(longest_step)) == seconds
    took = []
    for moment in MOMENTS:
        # What an engine takes that is four times as fast as it may be.
        step = longest_step / 4 or 1.0
        hang = moment + 3 * step + 0.01 if busy else moment
        steps = [step] * 40 if busy else [0.0]
        reason, end = watched(Steps(moment, steps, hangs=hang), longest_step)
        assert "while its counters stand still" in reason
        took.append(end - hang)
    assert longest_step < min(took)
    # The bound is not generous.
    assert seconds - (8 if busy else 2) < max(took) <= seconds


def test_a_hang_is_found_within_20_seconds_and_the_longest_step() -> None:
    for step in range(300):
        seconds = probe.found_within(probe.patience(step))
        assert step < seconds <= max(24, step + 20)


def test_an_engine_that_is_slow_and_goes_on_gets_twice_of_what_it_has_shown() -> None:
    """The steps of a long prompt grow, on a GPU that is held back beyond what a recipe allows."""
    growing = list(accumulate([10.0] + [1.2] * 8, lambda last, factor: last * factor))
    assert growing[-1] > 2 * 20
    assert all(after < 1.5 * before for before, after in pairwise(growing))
    for moment in MOMENTS:
        assert watched(Steps(moment, growing), 20)[0] == ""
        # Without the shorter ones before, the longest ends it.
        assert watched(Steps(moment, growing[-1:]), 20)[0]
        # Later hangs are found, up to a bound.
        hang = moment + sum(growing) + 50
        reason, end = watched(Steps(moment, growing, hangs=hang), 20)
        assert reason
        assert end - hang <= probe.found_within(2 * probe.patience(20))
        # What it may show is bounded.
        longer = list(accumulate([10.0] + [1.2] * 20, lambda last, factor: last * factor))
        reason, end = watched(Steps(moment, longer), 20)
        assert reason
        assert end < moment + sum(longer)


def test_recipes_allow_the_steps_that_were_measured() -> None:
    """On a GB10, by the times to first tokens that others published; seconds for a step."""
    # 16,384 tokens of Qwen3.6-35B in FP8 at 262,144 tokens of context.
    assert load_recipe("qwen3.6-35b-fp8").longest_step > 4 * 15.0
    # 40,186 tokens of Qwen3.8-27B in 37.3 s, in steps of 16,384.
    dense = load_recipe("qwen3.8-27b-nvidia")
    assert dense.longest_step > 2 * 37.3 * 16_384 / 40_186
    # A test with steps of a minute is one of what the first recipe allows.
    assert load_recipe("qwen3.6-35b-fp8").longest_step > 60
