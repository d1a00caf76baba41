"""The requests of a workload."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LONG = "long"
QUESTION = "Which three of these notes have most in common? Name them, and say why."


def requests(
    workload: Mapping[str, Any],
    passages: Sequence[str],
    nonce: str,
    count: Callable[[str], int],
) -> list[dict[str, Any]]:
    """Return prompts and lengths of answers, in the order in which they are asked.

    Args:
        workload: as the manifest has it.
        passages: what long prompts are made of.
        nonce: a word that no earlier benchmark has used: no cache holds what begins with it.
        count: returns the tokens of a text.
    """
    kinds, texts, asked = workload["prompts"], dict(workload["texts"]), []
    if LONG in kinds:
        texts[LONG] = [
            long_prompt(workload["input_tokens"], passages, f"{nonce}-{number}", count)
            for number in range(workload["requests"] if workload["fresh"] else 1)
        ]
    for number in range(workload["requests"]):
        known = texts[kinds[number % len(kinds)]]
        prompt = known[number // len(kinds) % len(known)]
        asked.append({"prompt": prompt, "output_tokens": workload["output_tokens"]})
    return asked


def long_prompt(
    tokens: int, passages: Sequence[str], name: str, count: Callable[[str], int]
) -> str:
    """Return a prompt of so many tokens, short of them by less than a passage.

    Args:
        tokens: of the text, its question included.
        passages: paragraphs; they come again in another order.
        name: the first words, and what decides the order.
    """
    parts = [f"Notes of collection {name}."]
    left = tokens - count(f"{parts[0]}\n\n{QUESTION}")
    # With what a number of three digits takes.
    lengths = [count(f"\n\n100. {passage}") for passage in passages]
    order = random.Random(name)
    while True:
        for place in order.sample(range(len(passages)), len(passages)):
            left -= lengths[place]
            if left < 0:
                return "\n\n".join([*parts, QUESTION])
            parts.append(f"{len(parts)}. {passages[place]}")
