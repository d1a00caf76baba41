"""The names of a site, and what a public text says instead of each."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from sparkwright.fleet.fleet import Fleet, Reached
from sparkwright.recipe.loader import RECIPES, is_path, recipe_files
from sparkwright.recipe.recipe import Recipe
from sparkwright.recipe.values import ImageMods

# Words that say nothing about anyone, and are in many lines: a name of one of them stays.
_COMMON = re.compile(
    "(?i)admin|chat|code|coder|container|default|dgx|docker|engine|error|gateway|gpu|info|kernel|large|"
    "linux|llm|local|localhost|main|model|nvidia|python|qwen|/?root|server|service|small|spark|system|"
    "test|text|ubuntu|user|vision|vllm"
)
# Shorter names than this are parts of ordinary text.
_SHORTEST = 2


def is_shipped(recipe: str) -> bool:
    """Tell whether a recipe is one of Sparkwright's own, whose name everybody may know."""
    file = None if is_path(recipe) else recipe_files().get(recipe)
    return file is not None and file.parent == RECIPES


def spark_numbers(fleet: Fleet) -> dict[str, str]:
    """Return `spark1`, `spark2` and so on for the Sparks of an inventory, by their names."""
    return {name: f"spark{number}" for number, name in enumerate(fleet.sparks, start=1)}


def site_names(
    fleet: Fleet,
    recipes: Mapping[str, Recipe],
    hostnames: Mapping[str, str],
    operator: Collection[str],
) -> dict[str, str]:
    """Return what to write instead of the names of a site.

    Args:
        fleet: the inventory.
        recipes: its recipes, by the names that replicas use.
        hostnames: what Sparks call themselves, by their names in the inventory.
        operator: user, home folder, host name and token of the machine that runs pyinfra.
    """
    found = dict(_pairs(fleet, recipes, hostnames, operator))
    return {
        name: instead
        for name, instead in found.items()
        if len(name) >= _SHORTEST and not _COMMON.fullmatch(name)
    }


def _pairs(
    fleet: Fleet,
    recipes: Mapping[str, Recipe],
    hostnames: Mapping[str, str],
    operator: Collection[str],
) -> Iterator[tuple[str, str]]:
    for each in operator:
        yield each, "[operator]"
    for name, recipe in recipes.items():
        if not is_shipped(name):
            yield from _of_recipe(name, recipe)
    for count, name in enumerate(fleet.replicas, start=1):
        yield name, f"replica{count}"
    if fleet.gateway:
        yield from _of_host(fleet.gateway, "gateway")
    numbers = spark_numbers(fleet)
    for name, number in numbers.items():
        yield from _of_host(fleet.sparks[name], number)
        # Without the domain, too: a host may log either.
        for own in (name, hostnames.get(name, "")):
            yield own, number
            yield own.partition(".")[0], number


def _of_host(host: Reached, instead: str) -> Iterator[tuple[str, str]]:
    if host.ssh_hostname:
        yield host.ssh_hostname, instead
    if host.ssh_user:
        yield host.ssh_user, "[user]"
    if host.ssh_key:
        yield host.ssh_key, "[file]"
        yield Path(host.ssh_key).name, "[file]"


def _of_recipe(name: str, recipe: Recipe) -> Iterator[tuple[str, str]]:
    for own in (name, Path(name).stem, recipe.name):
        yield own, "own-recipe"
    yield recipe.base_image, "[image]"
    yield recipe.base_image.partition("@")[0].rpartition(":")[0], "[image]"
    if isinstance(recipe.image, ImageMods):
        for mod in recipe.image.mods:
            yield Path(mod).name, "[mod]"
    for own in recipe.models:
        yield own, "own-model"
    for checkpoint in recipe.checkpoints.values():
        yield checkpoint.repo, "own-model"
        yield checkpoint.repo.partition("/")[2], "own-model"
        yield checkpoint.folder, "own-model"
