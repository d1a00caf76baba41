"""Which of our recipes fit on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.hardware import Hardware
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.known_checkpoints import nominal_load

# In the order in which they are recommended (docs/recipes.md): the first that fits is offered.
FIRST = {1: ("qwen3.6-35b-nvidia",), 2: ("qwen3.5-122b-nvidia", "qwen3.6-35b-nvidia")}


@dataclass(frozen=True)
class Offer:
    """A recipe that fits; `download` is the bytes of its checkpoints."""

    recipe: str
    description: str
    download: int


def offers(hardware: Hardware, surveys: Sequence[Survey]) -> list[Offer]:
    """Return the recipes that fit on one machine, or on a pair; the recommended ones first."""
    first = FIRST[len(surveys)]
    found = map(load_recipe, dict.fromkeys([*first, *recipe_names()]))
    return [offer for recipe in found for offer in _fitting(recipe, hardware, surveys)]


def _fitting(recipe: Recipe, hardware: Hardware, surveys: Sequence[Survey]) -> Iterator[Offer]:
    if hardware.name not in recipe.hardware or len(surveys) not in recipe.sparks:
        return
    load = nominal_load(recipe.for_sparks(len(surveys)), len(surveys))
    known = map(load.checkpoints.get, recipe.whole_models)
    sizes = [each.size if each else 0 for each in known]
    if not all(sizes) or load.shapeless:
        # Nothing tells whether it fits.
        return
    findings = (memory_findings(load, hardware, survey) for survey in surveys)
    if not any(finding.error for some in findings for finding in some):
        yield Offer(recipe.name, " ".join(recipe.description.split()), sum(sizes))
