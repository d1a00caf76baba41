"""Which of our recipes fit on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.hardware import Hardware
from sparkwright.host.survey import Survey
from sparkwright.memory.check import memory_findings
from sparkwright.memory.known_checkpoints import nominal_load
from sparkwright.recipe.loader import load_recipe, recipe_names

# In the order in which they are recommended (docs/recipes.md): the first that fits is offered.
_FIRST = {1: ("qwen3.6-35b-nvidia",), 2: ("qwen3.5-122b-nvidia", "qwen3.6-35b-nvidia")}


@dataclass(frozen=True)
class Offer:
    """A recipe that fits.

    Attributes:
        recipe: Its name.
        description: What it serves.
        download: Bytes of its checkpoints.
    """

    recipe: str
    description: str
    download: int


def offers(hardware: Hardware, surveys: Sequence[Survey]) -> list[Offer]:
    """Return the recipes that fit on all of some machines together, the recommended ones first.

    Args:
        hardware: Their hardware class.
        surveys: One of each; of one machine, or of the two of a pair.
    """
    first = _FIRST[len(surveys)]
    names = [*first, *(name for name in recipe_names() if name not in first)]
    return [*_fitting(names, hardware, surveys)]


def _fitting(
    names: Sequence[str], hardware: Hardware, surveys: Sequence[Survey]
) -> Iterator[Offer]:
    for name in names:
        recipe = load_recipe(name)
        if hardware.name not in recipe.hardware or len(surveys) not in recipe.sparks:
            continue
        load = nominal_load(recipe.for_sparks(len(surveys)), len(surveys))
        known = map(load.checkpoints.get, recipe.whole_models)
        sizes = [each.size if each else 0 for each in known]
        if not all(sizes) or load.shapeless:
            # Nothing tells whether it fits.
            continue
        findings = [
            finding for survey in surveys for finding in memory_findings(load, hardware, survey)
        ]
        if any(finding.error for finding in findings):
            continue
        yield Offer(name, " ".join(recipe.description.split()), sum(sizes))
