"""Two engines on one Spark: what each is given, and what is refused."""

import re
from dataclasses import replace

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import MIB, Load, engine_bytes, sized
from tests.makers.memory import BF16, CARD, findings, load

GB10, LAB = HARDWARE["gb10"], HARDWARE["lab"]
SMALL = "qwen3.6-35b-nvidia"
RECIPES = [
    name
    for name in recipe_names()
    if "gb10" in (own := load_recipe(name)).hardware and 1 in own.sparks and own.answers == "chat"
]


def shapeless(share: float) -> Load:
    own = load(SMALL, gpu_memory_utilization=share)
    weights = {name: replace(each, shape=None) for name, each in own.checkpoints.items()}
    return replace(own, checkpoints=weights)


def test_an_engine_gets_its_cache_in_bytes_and_a_share_that_is_what_it_takes() -> None:
    own = load(SMALL, gpu_memory_utilization=0.4)
    given = sized(own, GB10)
    assert given.options.kv_cache_memory_bytes
    assert given.options.kv_cache_memory_bytes % MIB == 0
    # What it had alone, but for the graphs that some releases have outside of the share.
    assert given.options.gpu_memory_utilization == pytest.approx(0.4, abs=0.02)
    again = nominal_load(given, 1)
    assert engine_bytes(again, GB10) == pytest.approx(engine_bytes(own, GB10), abs=MIB)
    assert sized(again, GB10).args == given.args
    # A size of the recipe's own is kept. vLLM would wait in vain for nine tenths to be free.
    own = load(SMALL, gpu_memory_utilization=0.9, kv_cache_memory_bytes=4 * GIB)
    given = sized(own, GB10)
    assert given.options.kv_cache_memory_bytes == 4 * GIB
    assert given.options.gpu_memory_utilization < 0.5
    # What cannot be planned stays as it is.
    unknown = shapeless(0.9)
    assert sized(unknown, GB10) == unknown.recipe
    assert sized(own, LAB) == own.recipe
    assert engine_bytes(own, LAB) == 0


def test_the_sum_has_to_fit() -> None:
    beside = engine_bytes(load(SMALL, gpu_memory_utilization=0.1), GB10)
    assert findings(load(BF16)) == []
    (finding,) = findings(load(BF16), beside=beside)
    assert finding.error
    assert f"the other engine, which takes {beside / GIB:.1f} GiB" in finding.found
    # The remedy holds, with the other one beside it.
    (share,) = re.findall(r"\d[\d.]*", finding.remedy)
    again = load(BF16, gpu_memory_utilization=float(share))
    assert not [each for each in findings(again, beside=beside) if each.error]


@pytest.mark.parametrize("chat", RECIPES)
def test_a_model_for_texts_fits_beside_all_but_the_largest_shares(chat: str) -> None:
    """As docs/two-models.md says."""
    share = load_recipe(chat).options.gpu_memory_utilization
    for texts in ("qwen3-embedding-0.6b", "qwen3-reranker-0.6b"):
        found = findings(load(chat), beside=engine_bytes(load(texts), GB10))
        assert any(each.error for each in found) == (share == 0.85), found


def test_a_card_has_no_host_beside_its_engines() -> None:
    own = load(CARD, gpu_memory_utilization=0.9, max_num_seqs=16)
    assert not [each for each in findings(own, "rtx-5090") if each.error]
    errors = [each for each in findings(own, "rtx-5090", beside=8 * GIB) if each.error]
    assert any("beside the other engine's 8.0 GiB" in each.found for each in errors)


def test_what_has_no_plan_counts_with_its_share() -> None:
    beside = engine_bytes(shapeless(0.4), GB10)
    assert beside == int(0.4 * GB10.total_gib * GIB) + 2 * GIB
    unknown, wrong = findings(shapeless(0.6), beside=beside)
    assert (unknown.error, wrong.error) == (False, True)
    assert "its share and the other engine take 75.0 GiB and 50.7 GiB of " in wrong.found
    assert findings(shapeless(0.6)) == [unknown]
    assert findings(shapeless(0.5), beside=engine_bytes(shapeless(0.3), GB10)) == [unknown]
    assert findings(shapeless(0.6), "lab", beside=beside) == []
