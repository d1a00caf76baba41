"""Whether two engines fit, where the way back leads, and what a person is told."""

from dataclasses import replace

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
    parse_memory,
    progress_line,
)
from sparkwright.plan.memory.check import LEAST
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import HOST
from sparkwright.upkeep.rollback.history import History, obstacle, parse_history

SPARK = MemoryState(total=int(121.7 * GIB), available=int(115 * GIB), gpu_free=None)


def settings(recipe: str, hardware: str = "gb10", sparks: int = 1) -> SwitchSettings:
    load = nominal_load(load_recipe(recipe).for_sparks(sparks), sparks)
    return SwitchSettings(120, 300, True, HARDWARE[hardware], load)


def test_memory_is_read() -> None:
    lines = ["@@host", "127601452", "101601452", "0", "@@gpu", "[N/A], [N/A]"]
    assert parse_memory(lines) == MemoryState(127601452 * 1024, 101601452 * 1024, None)
    assert parse_memory([*lines[:4], "@@gpu"]).gpu_free is None
    assert parse_memory([*lines[:5], "90123, 97887"]).gpu_free == 90123 * 1024**2
    # A card for a display has less, and more of it free.
    largest = [*lines[:5], "8000, 8192", "700, 32607"]
    assert parse_memory(largest).gpu_free == 700 * 1024**2
    # One that does not say how large it is may be any.
    assert parse_memory([*lines[:5], "8000, [N/A]", "700, 32607"]).gpu_free == 700 * 1024**2
    # What the kernel keeps counts as available, and no engine gets it.
    kept = parse_memory(["@@host", "127601452", "101601452", "9750528", "@@gpu"])
    assert kept.available == (101601452 - 9750528) * 1024
    with pytest.raises(ValueError, match="unpack"):
        parse_memory(["@@host", "@@gpu"])


CARD = replace(settings("qwen3.5-35b-nvfp4-rtx-5090", "rtx-5090"), load=None)
FP8 = settings("qwen3.6-35b-fp8")
SIZED = replace(FP8, load=None)
LEFT = SPARK.available - 4 * GIB


@pytest.mark.parametrize(
    ("plan", "state", "size", "fits"),
    [
        # One that takes most of a Spark has no room beside another.
        (FP8, SPARK, None, True),
        (FP8, replace(SPARK, available=20 * GIB), None, False),
        # What must stay free stays free.
        (SIZED, SPARK, LEFT, True),
        (SIZED, SPARK, LEFT + 1, False),
        # A card has memory of its own.
        (CARD, replace(SPARK, gpu_free=8 * GIB), 8 * GIB, True),
        (CARD, replace(SPARK, gpu_free=8 * GIB), 8 * GIB + 1, False),
        (CARD, SPARK, 1, False),
        # What is not known is not tried.
        (SIZED, SPARK, None, False),
        # A pair is never two.
        (settings("qwen3.6-35b-fp8", sparks=2), replace(SPARK, available=2**50), None, False),
        (settings("lab-tiny", "lab"), replace(SPARK, available=4 * GIB), None, True),
        (settings("lab-tiny", "lab"), replace(SPARK, available=4 * GIB - 1), None, False),
    ],
)
def test_what_has_room_beside_another(
    plan: SwitchSettings, state: MemoryState, size: int | None, fits: bool
) -> None:
    assert is_beside(plan, state, size=size) is fits


def test_a_model_without_a_shape_is_not_tried_beside_another() -> None:
    assert FP8.load
    model = replace(FP8.load.checkpoints["model"], shape=None)
    shapeless = replace(FP8.load, checkpoints={"model": model})
    assert not is_beside(replace(FP8, load=shapeless), SPARK)


def test_the_other_engine_of_a_spark_keeps_its_memory_while_it_is_down() -> None:
    assert is_beside(SIZED, SPARK, size=LEFT - 10 * GIB, reserved=10 * GIB)
    assert not is_beside(SIZED, SPARK, size=LEFT - 10 * GIB + 1, reserved=10 * GIB)
    free = replace(SPARK, gpu_free=8 * GIB)
    assert not is_beside(CARD, free, size=7 * GIB, reserved=2 * GIB)


def test_an_engine_that_exceeds_memory_with_the_other_one_is_not_started() -> None:
    plan = replace(settings("qwen3.6-35b-nvidia"), load=None)
    # Less what the host takes, and what stays free.
    room = SPARK.total - int(HOST[1] + LEAST[1] * GIB)
    assert crowded(plan, SPARK, room - 10 * GIB, 10 * GIB) is None
    assert crowded(plan, SPARK, room, 0) is None
    assert crowded(plan, SPARK, None, 10 * GIB) is None
    why = crowded(plan, SPARK, room - 9 * GIB, 10 * GIB)
    assert why
    assert "the 10.0 GiB of the Spark's other replica" in why
    assert "`--limit` and its name" in why
    total = int(HARDWARE["rtx-5090"].total_gib * GIB)
    assert crowded(CARD, SPARK, total - GIB, GIB) is None
    assert crowded(CARD, SPARK, total - GIB, GIB + 1)


def test_orders_keep_the_size_for_the_way_back() -> None:
    lab = settings("lab-tiny", "lab")
    told = orders(lab, SPARK)
    assert f'"beside": true, "trial": 120, "drain": 300, "door": true, "engine": {3 * GIB}' in told
    back = replace(lab, load=None)
    assert '"beside": false' in orders(back, SPARK)
    assert orders(back, SPARK, 3 * GIB) == told


def history(*served: str, current: str | None = None, under_way: tuple[str, ...] = ()) -> History:
    return History(served, current or (served[-1] if served else None), frozenset("abc"), under_way)


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
    of_pair = obstacle("x", history("a", "b"), "y", history("b"))
    assert "x would go back to a, y to nothing" in (of_pair or "")
    assert obstacle("x", history("a", "b"), "y", history("a", "b")) is None


def test_a_history_is_read() -> None:
    lines = ["@@history", "a", "b", "@@current", "releases/b", "@@releases", "a", "b"]
    found = parse_history([*lines, "@@switches", "switch@c.service"])
    assert found == History(("a", "b"), "b", frozenset("ab"), ("c",))
    nothing = parse_history(["@@history", "@@current", "@@releases", "@@switches"])
    assert nothing == History((), None, frozenset(), ())
    # A switch of the Spark's other replica is none of this one's.
    other = ["@@seats", '/r/releases/c/unit.json:  "seat": "embed",', *lines]
    ends = ["@@switches", "switch@c.service"]
    assert parse_history(["@@seat", "", *other, *ends]).under_way == ()
    assert parse_history(["@@seat", "embed", *other, *ends]).under_way == ("c",)


REPORT = {"previous": "old", "beside": False, "message": "", "total": 0, "restored": False}
REPORT |= {"seconds": 30.0, "gap": 25.0, "began": 1}


def said(**values: object) -> SwitchReport:
    return SwitchReport.model_validate(REPORT | values)


@pytest.mark.parametrize(
    ("changes", "served", "restored", "reason"),
    [
        ({"phase": "done", "restored": True}, True, None, ""),
        ({"phase": "failed", "restored": True, "message": "no GPU"}, False, True, "no GPU"),
        ({"phase": "failed", "message": "no GPU"}, False, False, "no GPU"),
        ({"phase": "failed", "message": "no GPU", "previous": None}, False, None, "no GPU"),
    ],
)
def test_what_a_switch_has_written_is_taken_over_and_told(
    changes: dict[str, object], served: bool, restored: bool | None, reason: str
) -> None:
    told = {
        True: "old serves again; vllm@new stays off.",
        False: "old does not serve now",
        None: "vllm@new is off.",
    }
    for beside in (True, False):
        outcome = Outcome()
        outcome.take(said(beside=beside, **changes))
        assert (outcome.served, outcome.restored, outcome.reason) == (served, restored, reason)
        assert outcome.previous == (REPORT | changes)["previous"]
        assert (outcome.beside, outcome.seconds, outcome.gap) == (beside, 30.0, 25.0)
        if not served:
            assert told[restored] in failure("new", outcome)
            assert failure("new", outcome).endswith(": journalctl -u vllm@new -u switch@new")


def test_what_is_told_on_the_way() -> None:
    def line(phase: str, **values: object) -> str:
        return progress_line(said(phase=phase, **values))

    assert "in place of old: requests wait" in line("starting")
    assert "beside old" in line("starting", beside=True)
    assert line("starting", previous=None) == line("checking") == line("done") == ""
    assert line("draining", message="2 requests in flight").endswith("; 2 requests in flight")
    assert "on trial for 15 s" in line("trial", total=15)
    assert "old is to serve again" in line("returning")
