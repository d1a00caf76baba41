"""How likely an engine finds the tokens of a text: what a sum over two Sparks that is wrong spoils.

On a GPU equal tokens prove nothing and unequal ones disprove nothing: kernels round, so the first
near tie goes another way. The log probabilities of a prompt stay near one another instead.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

# Lincoln at Gettysburg, 1863: every model of English has read it many times. So long that a layer's
# sum over the ranks is of hundreds of KB, as in real prompts; so short that the logits of all
# positions, which vLLM holds at once for this, are 0.1 GB.
TEXT = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, "
    "conceived in Liberty, and dedicated to the proposition that all men are created equal. Now we "
    "are engaged in a great civil war, testing whether that nation, or any nation so conceived and "
    "so dedicated, can long endure. We are met on a great battle-field of that war. We have come "
    "to dedicate a portion of that field, as a final resting place for those who here gave their "
    "lives that that nation might live."
)

# Natural logarithm, mean of a token. Chance is -12 with Qwen's 248,320 tokens; text that a model
# has never seen, in a language that it knows, has -2 to -3.
KNOWN = -4.0
# Correlation, which does not hang on how sharp a model's guesses are. With two H200, vLLM 0.26.0
# and a random Qwen3.5-MoE, all of which is small numbers: 0.993 to 1.000 between one GPU and two,
# or between compiled and eager; 0.31 to 0.62 where the ranks' results were not added up.
ALIKE = 0.95


def question(model: str) -> dict[str, object]:
    """Return the body of a completion request that has a text's tokens judged."""
    return {
        "model": model,
        "prompt": TEXT,
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 0,
    }


def of_prompt(answer: Mapping[str, Any]) -> list[float]:
    """Return the log probability of each token of the prompt; the first has none."""
    _, *positions = answer["choices"][0]["prompt_logprobs"]
    # With 0 alternatives asked for, a position has the prompt's own token alone.
    return [entry["logprob"] for position in positions for entry in position.values()]


def problem(own: Sequence[float], other: Sequence[float] | None = None) -> str | None:
    """Say what is wrong with the log probabilities of a text; None where nothing is.

    Args:
        own: Those of the pair, for `TEXT` by a trained model.
        other: Those of one Spark with the same model: then only that both agree counts.
    """
    # Each is compared so that NaN is a problem.
    if other is None:
        mean = statistics.fmean(own)
        if mean >= KNOWN:
            return None
        return f"a well-known text has {mean:.1f} a token, expected {KNOWN:g} or more"
    try:
        alike = statistics.correlation(own, other)
    except statistics.StatisticsError:  # all the same
        alike = 0.0
    if alike >= ALIKE:
        return None
    return f"correlates with one Spark's by {alike:.2f}, expected {ALIKE:g} or more"
