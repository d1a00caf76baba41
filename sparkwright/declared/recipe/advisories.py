"""Published advisories about the releases of vLLM that recipes may name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.vllm_names import Release, number


@dataclass(frozen=True)
class Advisory:
    """One advisory: an entry of advisories.yaml, which says what its values are."""

    id: str
    first: Release
    fixed: Release
    fault: str


@cache
def advisories() -> tuple[Advisory, ...]:
    """Return all of them, by the release that fixed each."""
    entries = yaml.load(Path(__file__).with_name("advisories.yaml"))["advisories"]
    return tuple(
        Advisory(
            each["id"],
            number(each["first"]) if "first" in each else (),
            number(each["fixed"]),
            each["fault"],
        )
        for each in entries
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
        for each in advisories()
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
