"""What the benchmark measures."""

import json

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.workloads import (
    EXPECTED,
    LONG,
    METRICS,
    WORKLOADS,
    Workload,
    order,
    passages,
)
from sparkwright.run.options import RunOptions, options_of


def test_all_or_what_is_asked_each_once():
    assert RunOptions().workloads is None
    assert options_of({"workloads": "code, short,code"}).workloads == ("code", "short")
    with pytest.raises(PlanError) as caught:
        options_of({"workloads": "shrot,single,codes"})
    first, second = caught.value.problems
    assert first.startswith("--data workloads: found 'shrot'; did you mean 'short'? ")
    assert second.startswith("--data workloads: ")
    assert "; did you mean 'code'? Expected one of " in second


@pytest.mark.parametrize("name", WORKLOADS)
def test_orders_hold_every_prompt(name):
    workload = WORKLOADS[name]
    told = json.loads(json.dumps(order(workload)))
    assert len(told["asked"]) == workload.requests
    assert (None in told["asked"]) == (LONG in workload.prompts)
    assert "" not in told["asked"]
    assert bool(workload.input_tokens) == (LONG in workload.prompts)
    assert told["context"] >= workload.input_tokens + workload.output_tokens


def test_the_tables_of_the_seeds():
    single = order(WORKLOADS["single"])
    assert len(set(single["asked"])) == single["requests"] == 10
    assert single["temperature"] == 0
    numbers = [1, 2, 4, 8, 16, 32, 64, 128]
    at_once = [WORKLOADS[f"concurrent-{number}"] for number in numbers]
    assert [each.concurrency for each in at_once] == numbers
    assert {(each.output_tokens, each.temperature, len(each.runs)) for each in at_once} == {
        (200, 0.7, 3)
    }
    # 108,000 tokens and their answer fit the 131,072 of docai.hu's recipe.
    assert WORKLOADS["mix-long"].context <= 131_072
    assert len(passages()) > 10


def test_the_eight_sections_of_seed_001s_benchmark():
    """scripts/bench_full.py at 681047e: lengths, trials and temperatures; the prompts are ours."""

    def of(*names: str) -> list[Workload]:
        return [WORKLOADS[name] for name in names]

    first = of("ttft-tiny", "ttft-question", "ttft-medium", "ttft-long")
    assert {(each.requests, each.output_tokens, each.temperature) for each in first} == {(5, 16, 0)}
    assert first[-1].input_tokens == 465
    decode = of("decode-50", "decode-200", "decode-500", "decode-1000")
    assert [each.output_tokens for each in decode] == [50, 200, 500, 1000]
    assert {each.requests for each in decode} == {3}
    modes = of("greedy", "sampled")
    assert [each.temperature for each in modes] == [0, 0.7]
    assert {(each.requests, each.output_tokens) for each in modes} == {(5, 200)}
    prefill = of("prefill-1k", "prefill-4k", "prefill-16k", "prefill-32k")
    assert [each.input_tokens for each in prefill] == [1024, 4096, 16384, 32768]
    assert {(each.output_tokens, each.requests, each.fresh) for each in prefill} == {(64, 1, True)}
    for number in (1, 4, 16, 64):
        scaling, rag = of(f"ttft-at-{number}", f"rag-{number}")
        assert (scaling.concurrency, scaling.requests) == (rag.concurrency, rag.requests)
        assert rag.concurrency == number
        assert (scaling.output_tokens, scaling.temperature, len(scaling.runs)) == (1, 0, 3)
        assert (rag.input_tokens, rag.output_tokens, len(rag.runs)) == (1000, 50, 2)
    # Its README tells the speeds of these alone, with trials enough.
    deciding = [name for name, each in WORKLOADS.items() if each.decides]
    assert set(deciding) >= {"single", *(f"concurrent-{n}" for n in (1, 4, 16, 64, 128))}
    assert not {each.name for each in (*first, *decode, *modes, *prefill)} & set(deciding)


def test_mixes_are_of_seed_004_and_ask_their_kinds_in_turn():
    mixes = [WORKLOADS[f"mix-{name}"] for name in ("short", "typical", "long", "long-2")]
    numbers = [(each.concurrency, each.requests) for each in mixes]
    assert numbers == [(4, 20), (4, 20), (4, 8), (2, 6)]
    kinds = WORKLOADS["mix-typical"].asked
    assert kinds[3::4] == [None] * 5
    assert len(set(kinds[0::4])) > 1
    assert not {*kinds[0::4]} & {*kinds[1::4]}


def test_recipes_expect_only_what_is_measured():
    expected = [load_recipe(name).expected for name in recipe_names()]
    assert any(expected)
    for figures in expected:
        assert set(figures) <= set(EXPECTED)
        assert {metric for values in figures.values() for metric in values} <= set(METRICS)
