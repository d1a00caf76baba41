"""What the benchmark measures."""

import json

import pytest

from sparkwright.declared.recipe.workloads import LONG, WORKLOADS, order, passages
from sparkwright.run.options import RunOptions, options_of
from tests.makers.refused import refused


def test_all_or_what_is_asked_each_once():
    assert RunOptions().workloads is None
    assert options_of({"workloads": "code, short,code"}).workloads == ("code", "short")
    first, second = refused(options_of, {"workloads": "shrot,single,codes"})
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


def test_prompts_differ_and_the_longest_fit():
    assert len(set(WORKLOADS["single"].asked)) == 10
    # 108,000 tokens and their answer fit the 131,072 of docai.hu's recipe.
    assert WORKLOADS["mix-long"].context <= 131_072
    assert len(passages()) > 10
