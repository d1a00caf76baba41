"""Which of our recipes fit on a machine."""

from __future__ import annotations

from collections.abc import Sequence

from sparkwright.common.hardware import Hardware
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.known_checkpoints import nominal_load

# In the order in which they are recommended (docs/recipes.md): the first that fits is offered.
FIRST = {1: ("qwen3.6-35b-nvidia",), 2: ("qwen3.5-122b-nvidia", "qwen3.6-35b-nvidia")}


def offers(hardware: Hardware, surveys: Sequence[Survey]) -> dict[str, int]:
    """Return the recipes that fit on one machine, or on a pair, and the bytes to download.

    The recommended ones come first.
    """
    names = dict.fromkeys([*FIRST[len(surveys)], *recipe_names()])
    found = {name: _download(load_recipe(name), hardware, surveys) for name in names}
    return {name: size for name, size in found.items() if size}


def _download(recipe: Recipe, hardware: Hardware, surveys: Sequence[Survey]) -> int:
    """Return the bytes of a recipe's checkpoints; 0 where it does not fit."""
    if hardware.name not in recipe.hardware or len(surveys) not in recipe.sparks:
        return 0
    load = nominal_load(recipe.for_sparks(len(surveys)), len(surveys))
    known = map(load.checkpoints.get, recipe.whole_models)
    sizes = [each.size if each else 0 for each in known]
    if not all(sizes) or load.shapeless:
        # Nothing tells whether it fits.
        return 0
    findings = (
        memory_findings(load, hardware, each.memory, each.kernel.handover) for each in surveys
    )
    fits = not any(finding.error for some in findings for finding in some)
    return sum(sizes) if fits else 0
