"""Whether two engines fit, where the way back leads, and what a person is told."""

from dataclasses import replace
from typing import Any

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.engine.switch import (
    MemoryState,
    Outcome,
    SwitchReport,
    SwitchSettings,
    crowded,
    failure,
    is_beside,
    orders,
)
from sparkwright.plan.memory.check import LEAST
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import HOST
from sparkwright.upkeep.rollback.deploy import History, obstacle

UNKNOWN: dict[str, Any] = {"handover": 0, "gpu_free": None, "engine": None}
SPARK = MemoryState(
    total=int(121.7 * GIB), available=int(115 * GIB), beside=0, reserved=0, **UNKNOWN
)


def spark(**changes: object) -> MemoryState:
    return SPARK.model_copy(update=changes)


def settings(recipe: str, hardware: str = "gb10", sparks: int = 1) -> SwitchSettings:
    load = nominal_load(load_recipe(recipe).for_sparks(sparks), sparks)
    return SwitchSettings(120, 300, True, HARDWARE[hardware], load)


CARD = replace(settings("qwen3.5-35b-nvfp4-rtx-5090", "rtx-5090"), load=None)
FP8 = settings("qwen3.6-35b-fp8")
SIZED = replace(FP8, load=None)
LEFT = SPARK.free - 4 * GIB


@pytest.mark.parametrize(
    ("plan", "memory", "fits"),
    [
        # One that takes most of a Spark has no room beside another.
        (FP8, SPARK, True),
        (FP8, spark(available=20 * GIB), False),
        # What must stay free stays free.
        (SIZED, spark(engine=LEFT), True),
        (SIZED, spark(engine=LEFT + 1), False),
        (SIZED, spark(engine=LEFT, handover=GIB), False),
        # The other engine of a Spark keeps its memory while it is down.
        (SIZED, spark(engine=LEFT - GIB, reserved=GIB), True),
        (SIZED, spark(engine=LEFT - GIB + 1, reserved=GIB), False),
        # A card has memory of its own.
        (CARD, spark(gpu_free=8 * GIB, engine=8 * GIB), True),
        (CARD, spark(gpu_free=8 * GIB, engine=8 * GIB + 1), False),
        (CARD, spark(gpu_free=8 * GIB, engine=7 * GIB, reserved=2 * GIB), False),
        (CARD, spark(engine=1), False),
        # What is not known is not tried.
        (SIZED, SPARK, False),
        # One that takes turns starts in the place of the one before.
        (replace(SIZED, on_demand=True), spark(available=2**50, engine=1), False),
        # A pair is never two.
        (settings("qwen3.6-35b-fp8", sparks=2), spark(available=2**50), False),
        (settings("lab-tiny", "lab"), spark(available=4 * GIB), True),
        (settings("lab-tiny", "lab"), spark(available=4 * GIB - 1), False),
    ],
)
def test_what_has_room_beside_another(
    plan: SwitchSettings, memory: MemoryState, fits: bool
) -> None:
    assert is_beside(plan, memory) is fits


def test_a_model_without_a_shape_is_not_tried_beside_another() -> None:
    assert FP8.load
    model = replace(FP8.load.checkpoints["model"], shape=None)
    shapeless = replace(FP8.load, checkpoints={"model": model})
    assert not is_beside(replace(FP8, load=shapeless), SPARK)


def test_an_engine_that_exceeds_memory_with_the_other_one_is_not_started() -> None:
    plan = replace(settings("qwen3.6-35b-nvidia"), load=None)
    # Less what the host takes, and what stays free.
    room = SPARK.total - int(HOST[1] + LEAST[1] * GIB)
    assert crowded(plan, spark(engine=room - 10 * GIB, beside=10 * GIB)) is None
    assert crowded(plan, spark(engine=room, beside=0)) is None
    assert crowded(plan, spark(engine=None, beside=10 * GIB)) is None
    why = crowded(plan, spark(engine=room - 9 * GIB, beside=10 * GIB))
    assert why
    assert "the 10.0 GiB of the Spark's other replicas" in why
    assert "`--limit` and a name" in why
    total = int(HARDWARE["rtx-5090"].total_gib * GIB)
    assert crowded(CARD, spark(engine=total - GIB, beside=GIB)) is None
    assert crowded(CARD, spark(engine=total - GIB, beside=GIB + 1))


def test_orders_keep_the_size_for_the_way_back() -> None:
    lab = settings("lab-tiny", "lab")
    told = orders(lab, SPARK)
    assert f'"beside": true, "trial": 120, "drain": 300, "door": true, "engine": {3 * GIB}' in told
    back = replace(lab, load=None)
    assert '"beside": false' in orders(back, SPARK)
    assert orders(back, spark(engine=3 * GIB)) == told


def history(
    *served: str, current: str | None = None, under_way: tuple[str, ...] = (), sparks: int = 0
) -> History:
    now, there = current or (served[-1] if served else None), dict.fromkeys("abc", sparks)
    return History(served=served, current=now, installed=there, under_way=under_way)


def test_the_way_back() -> None:
    assert history().before is None
    assert history("a").before is None
    assert history("a", "b").before == "a"
    assert history("a", "b", "a").before == "b"
    assert history("a", "b", "b").before == "a"
    assert history("a", current="b").before == "a"
    assert history("a", "b", under_way=("c",)).before == "b"
    assert obstacle("x", history("a", "b")) is None
    assert obstacle("x", history()) == "There is nothing to go back to on x."
    assert obstacle("x", history("a")) == "There is nothing to go back to on x: only a has served."
    assert "d is no longer on x" in (obstacle("x", history("d", "a")) or "")
    of_pair = obstacle("x", history("a", "b"), {"y": history("b")})
    assert "x would go back to a, y to nothing" in (of_pair or "")
    assert obstacle("x", history("a", "b"), {"y": history("a", "b")}) is None


def test_a_release_of_a_larger_group_is_no_way_back() -> None:
    """Its other Sparks would be waited for as long as a start may take, while nobody answers."""
    four = history("a", "b", sparks=4)
    for others in ({}, {"y": four}):
        said = obstacle("x", four, others)
        assert f"a is for 4 Sparks, and {1 + len(others)} serve now: name" in (said or "")
    assert obstacle("x", four, dict.fromkeys("uvw", four)) is None
    assert obstacle("x", history("a", "b", sparks=1)) is None


REPORT = {"previous": "old", "beside": False, "message": "", "total": 0, "restored": False}
REPORT |= {"seconds": 30.0, "gap": 25.0, "began": 1}


def said(**values: object) -> SwitchReport:
    return SwitchReport.model_validate(REPORT | values)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"phase": "done", "restored": True}, ""),
        ({"phase": "failed", "restored": True}, "old serves again; vllm@new stays off."),
        ({"phase": "failed"}, "old does not serve now"),
        ({"phase": "failed", "previous": None}, "vllm@new is off."),
    ],
)
def test_what_a_switch_has_written_is_taken_over_and_told(
    changes: dict[str, object], told: str
) -> None:
    outcome = Outcome()
    outcome.take(said(message="no GPU", **changes))
    assert (outcome.served, outcome.reason) == (not told, "no GPU" if told else "")
    if told:
        assert told in failure("new", outcome)
        assert failure("new", outcome).endswith(": journalctl -u vllm@new -u switch@new")
