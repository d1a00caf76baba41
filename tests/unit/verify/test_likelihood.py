"""What a pair's log probabilities must be: of two H200, and planted.

h200/likelihood.json holds those of three prompts (the third one's first 120 tokens) by vLLM 0.26.0
and the lab's model of random weights, two processes on two H200 that talked over TCP. The sum over
the ranks was left out in vllm/distributed/parallel_state.py: of all tensors, or of those above
64 KiB, which only the third prompt has.
"""

import json
import math
import random
from pathlib import Path

import pytest

from sparkwright.verify.test_pair import of_prompt, problem

MEASURED = json.loads((Path(__file__).parents[1] / "h200" / "likelihood.json").read_text())
ONE = MEASURED["one GPU"]


@pytest.mark.parametrize("name", ["two GPUs", "one GPU, eager"])
@pytest.mark.parametrize("prompt", [0, 1, 2])
def test_rounding_is_no_problem(name: str, prompt: int) -> None:
    assert MEASURED[name][prompt] != ONE[prompt]
    assert problem(MEASURED[name][prompt], ONE[prompt]) is None


@pytest.mark.parametrize("prompt", [0, 1, 2])
def test_ranks_that_are_not_added_up(prompt: int) -> None:
    assert "correlates" in (problem(MEASURED["two GPUs, no sum"][prompt], ONE[prompt]) or "")


def test_a_sum_that_fails_for_large_tensors_takes_a_long_prompt() -> None:
    broken = MEASURED["two GPUs, no sum of large tensors"]
    assert problem(broken[0], ONE[0]) is None
    assert "correlates" in (problem(broken[2], ONE[2]) or "")


def test_a_trained_model_with_noise_and_one_with_nonsense() -> None:
    """Planted: a known text with a few surprises, noise three times eager's, and chance."""
    draw = random.Random(14)
    known = [-draw.expovariate(2.0) for _ in range(120)]
    noisy = [value + draw.gauss(0, 0.05) for value in known]
    nonsense = [-draw.gauss(11, 2) for _ in range(120)]
    assert problem(known) is None
    assert problem(noisy, known) is None
    assert "a well-known text has -11." in (problem(nonsense) or "")
    assert "correlates" in (problem(nonsense, known) or "")


@pytest.mark.parametrize("value", [math.nan, -math.inf, -12.4])
def test_values_that_are_none_or_all_the_same(value: float) -> None:
    """A sum that overflows makes NaN of everything, which compares with nothing."""
    assert problem([value] * 120)
    assert problem([value] * 120, [value, *ONE[2][1:]])


def test_what_vllm_answers() -> None:
    entry = {"logprob": -6.5, "rank": 77, "decoded_token": " score"}
    answer = {"choices": [{"prompt_logprobs": [None, {"4710": entry}, {"9": entry}]}]}
    assert of_prompt(answer) == [-6.5, -6.5]
