"""Published advisories about the releases of vLLM that recipes may name.

Left out: what needs something that no recipe of ours has and a foreign one needs a word for (GGUF,
prompt embeddings, vLLM's batch runner), and what says of no release that it is mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkwright.recipe.recipe import Recipe
from sparkwright.recipe.vllm_names import Release, number


@dataclass(frozen=True)
class Advisory:
    """One advisory, as GitHub's database has it (github.com/advisories/ID).

    Attributes:
        id: Its name there.
        first: The first release that it is about; empty for all before `fixed`.
        fixed: The first release without the fault.
        fault: What it lets whom do.
    """

    id: str
    first: Release
    fixed: Release
    fault: str


# Read on 2026-11-22 in public copies of the database; the ranges are its own.
ADVISORIES = (
    Advisory(
        "GHSA-7972-pg2x-xr59",
        (0, 10, 1),
        (0, 18, 0),
        "a checkpoint of two kinds (Nemotron-VL, Kimi-K2.5) runs code, trusted or not",
    ),
    Advisory(
        "GHSA-3mwp-wvh9-7528", (0, 1, 0), (0, 19, 0), "one request with a large n ends the engine"
    ),
    Advisory(
        "GHSA-pq5c-rjhq-qp7p",
        (0, 7, 0),
        (0, 19, 0),
        "one video of very many JPEG frames takes all memory",
    ),
    Advisory(
        "GHSA-x368-4g9h-fvv4",
        (),
        (0, 19, 1),
        "KV blocks of models with Mamba layers are used before they are set",
    ),
    Advisory(
        "GHSA-hpv8-x276-m59f",
        (0, 6, 1),
        (0, 20, 0),
        "a text that spells a model's tokens for images ends the engine",
    ),
    Advisory("GHSA-q8gq-377p-jq3r", (), (0, 22, 0), "a checkpoint's configuration can run code"),
    Advisory(
        "GHSA-94f4-hr76-p5j6",
        (0, 3, 0),
        (0, 22, 0),
        "vLLM's own key check can be bypassed (the door checks them here)",
    ),
    Advisory(
        "GHSA-8wr5-jm2h-8r4f",
        (0, 17, 1),
        (0, 24, 0),
        "a request ends an engine that drafts tokens",
    ),
    Advisory("GHSA-hgg8-fqqc-vfmw", (), (0, 24, 0), "an error reveals memory addresses"),
    Advisory(
        "GHSA-rwxx-mrjm-wc2m", (), (0, 24, 0), "a client's regular expression can block the engine"
    ),
)

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def concerning(recipe: Recipe) -> list[Advisory]:
    """Return the advisories about the vLLM of a recipe.

    A build that is no release may lack what mended the release that it is nearest to.

    Args:
        recipe: What its ``vllm`` says of no version, nothing is known of.
    """
    found = _VERSION.search(recipe.vllm)
    if found is None:
        return []
    version, released = number(found[0]), found[0] == recipe.vllm
    return [
        each
        for each in ADVISORIES
        if each.first <= version
        and (version < each.fixed or (version == each.fixed and not released))
    ]


def warning(recipe: Recipe) -> str | None:
    """Return a sentence that names the advisories about a recipe's vLLM; None: there are none."""
    found = concerning(recipe)
    if not found:
        return None
    newest = ".".join(map(str, max(each.fixed for each in found)))
    ids = ", ".join(each.id for each in found)
    return (
        f"recipe {recipe.name} has vLLM {recipe.vllm}, of which faults are published: {ids}. A "
        f"recipe with {newest} or later has none of these; what each is: docs/recipes.md"
    )
