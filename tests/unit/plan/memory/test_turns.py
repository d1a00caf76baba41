"""Which engines may run together on a Spark whose models take turns."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.engine.turns import decision
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from sparkwright.plan.memory.turns import Tenant, alone, fit, room, tenant, together, unmet

GB10, MEMORY = HARDWARE["gb10"], 127601452 * 1024


def one(name: str, size: int, **more: Any) -> Tenant:
    return Tenant(
        **{"name": name, "stays": False, "grouped": False, "size": size, "spare": 2} | more
    )


def test_the_largest_sets_are_told():
    tenants = [
        one("coder", 6),
        one("vision", 5),
        one("embed", 1, stays=True),
        one("small", 2),
        one("pair", 7, grouped=True),
    ]
    told = together(tenants, 10)
    assert told.split(" | ") == ["embed + pair", "coder + embed", "vision + embed + small"]
    assert not [*unmet(tenants, 10)]
    many = together([one(f"m{number}", 5) for number in range(12)], 12)
    assert many.endswith(" | …")
    assert many.count("|") == 8
    # Not every set is tried: of forty there are a million millions.
    forty = [one(f"m{number}", 1 + number % 7) for number in range(40)]
    assert together(forty, 40).endswith(" | …")


tenants = st.lists(
    st.builds(Tenant, st.uuids().map(str), st.booleans(), st.booleans(), *[st.integers(0, 9)] * 2),
    max_size=7,
)


@given(tenants, st.integers(0, 25))
def test_each_set_fits_and_none_can_be_added(every: list[Tenant], total: int) -> None:
    if not fit([each for each in every if each.stays], total):
        return
    shown = together(every, total).split(" | ")
    for names in (each.split(" + ") for each in shown if each not in ("", "…")):
        own = [each for each in every if each.name in names]
        assert fit(own, total)
        assert not any(fit([*own, each], total) for each in every if each not in own)


@given(tenants, st.integers(0, 25))
def test_the_loop_on_the_spark_has_the_same_rule(every: list[Tenant], total: int) -> None:
    loop = [
        decision.Contender(each.name, each.size, spare=each.spare, grouped=each.grouped)
        for each in every
    ]
    assert fit(every, total) is decision.fit(loop, total)


@pytest.mark.parametrize("recipe", ["qwen3.6-35b-nvidia", "qwen3-embedding-0.6b"])
def test_alone_it_needs_what_its_memory_plan_says(recipe: str) -> None:
    load = nominal_load(load_recipe(recipe).for_sparks(1), 1)
    plan = plan_memory(load, GB10)
    assert plan
    own = tenant("x", load, GB10, stays=False)
    needed = plan.engine + plan.host - plan.standby + 4 * GIB
    assert own.size + own.spare == needed
    assert fit([own], room(GB10, MEMORY, 0)) is (needed <= MEMORY)


def test_what_a_kernel_keeps_moves_no_plan_from_run_to_run():
    looks = [room(GB10, MEMORY, int(9.3 * GIB) + pages * 4096) for pages in range(0, 9000, 1000)]
    assert {*looks} == {MEMORY - 10 * GIB}
    assert room(GB10, MEMORY, 0) == MEMORY


def test_what_nobody_can_plan_may_run_alone():
    """Its share may be more than the host leaves; beside another one it does not fit."""
    load = nominal_load(load_recipe("qwen3.6-35b-nvidia").for_sparks(1), 1)
    unknown = replace(load, checkpoints={"model": replace(load.checkpoints["model"], shape=None)})
    args = unknown.recipe.args | {"gpu-memory-utilization": 0.92}
    greedy = replace(unknown, recipe=unknown.recipe.model_copy(update={"args": args}))
    own, kept = tenant("x", greedy, GB10, stays=False), one("embed", GIB, stays=True)
    assert not fit([own], MEMORY)
    assert fit(alone([own], MEMORY), MEMORY)
    assert not [*unmet(alone([own], MEMORY), MEMORY)]
    assert [*unmet(alone([own, kept], MEMORY), MEMORY)]


def test_what_never_fits_is_refused_with_what_takes_its_place():
    kept, big = one("embed", 3 * GIB, stays=True), one("big", 9 * GIB, spare=2 * GIB)
    ((name, finding),) = unmet([kept, big, one("chat", 5 * GIB)], 12 * GIB)
    assert name == "big"
    assert finding.found == (
        "replicas.big never fits: it takes 9.0 GiB of 12.0 GiB, embed 3.0 GiB, and the host 2.0 GiB"
    )
    # One that is pinned is on demand as well.
    assert "have embed on demand, unpinned" in finding.remedy
