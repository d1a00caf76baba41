"""Published advisories about the releases of vLLM that recipes may name.

Left out are those about features that no recipe of ours uses and that need trust in another's
(GGUF, prompt embeddings, vLLM's batch runner), and those that name no fixed release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.vllm_names import Release, number


@dataclass(frozen=True)
class Advisory:
    """One advisory, as GitHub's database has it (github.com/advisories/ID).

    Attributes:
        id: Its name there.
        first: The first release with the fault; empty for all before `fixed`.
        fixed: The first release without the fault.
        fault: What an attacker can do by it.
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

    There are none where its ``vllm`` names no version. A build that is no release may lack the fix
    of the release that it is nearest to.
    """
    match = _VERSION.search(recipe.vllm)
    if match is None:
        return []
    version, released = number(match[0]), match[0] == recipe.vllm
    return [
        each
        for each in ADVISORIES
        if each.first <= version
        and (version < each.fixed or (version == each.fixed and not released))
    ]


def warning(recipe: Recipe) -> str | None:
    """Return a sentence that names the advisories about a recipe's vLLM; None: there are none."""
    advisories = concerning(recipe)
    if not advisories:
        return None
    newest = ".".join(map(str, max(each.fixed for each in advisories)))
    ids = ", ".join(each.id for each in advisories)
    return (
        f"recipe {recipe.name} has vLLM {recipe.vllm}, of which faults are published: {ids}. A "
        f"recipe with {newest} or later has none of these; what each is: docs/recipes.md"
    )
