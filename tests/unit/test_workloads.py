"""What the benchmark measures."""

import json

import pytest

from deploys.plan.errors import PlanError
from deploys.plan.recipes import load_recipe, recipe_names
from deploys.plan.workloads import LONG, METRICS, WORKLOADS, choose, order, passages


def test_all_or_what_is_asked_each_once():
    assert [each.name for each in choose(None)] == list(WORKLOADS)
    assert [each.name for each in choose("code, short,code")] == ["code", "short"]


def test_unknown_names_are_refused_together():
    with pytest.raises(PlanError) as caught:
        choose("shrot,single,codes")
    first, second = caught.value.problems
    assert first.startswith("--data workloads: found 'shrot'; expected one of code, ")
    assert first.endswith("did you mean 'short'?")
    assert second.endswith("did you mean 'code'?")


@pytest.mark.parametrize("name", WORKLOADS)
def test_orders_hold_every_prompt(name):
    workload = WORKLOADS[name]
    told = json.loads(json.dumps(order(workload)))
    assert set(told["texts"]) == set(workload.prompts) - {LONG}
    assert all(told["texts"].values())
    assert bool(workload.input_tokens) == (LONG in workload.prompts)
    assert told["context"] >= workload.input_tokens + workload.output_tokens


def test_the_tables_of_the_seeds():
    single = order(WORKLOADS["single"])
    assert len(set(single["texts"]["mixed"])) == single["requests"] == 10
    assert single["temperature"] == 0
    at_once = [WORKLOADS[f"concurrent-{number}"] for number in (1, 4, 16, 64, 128)]
    assert [each.concurrency for each in at_once] == [1, 4, 16, 64, 128]
    assert {(each.output_tokens, each.temperature, len(each.runs)) for each in at_once} == {
        (200, 0.7, 3)
    }
    # 108,000 tokens and their answer fit the 131,072 of seed 004's recipe.
    assert WORKLOADS["mix-long"].context <= 131_072
    assert len(passages()) > 10


def test_recipes_expect_only_what_is_measured():
    expected = [load_recipe(name).expected for name in recipe_names()]
    assert any(expected)
    for figures in expected:
        assert set(figures) <= set(WORKLOADS)
        assert {metric for values in figures.values() for metric in values} <= set(METRICS)
