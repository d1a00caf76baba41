"""Reads recipes, one from each YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.paths import FILES
from sparkwright.common.schema import nearest, parse, shown
from sparkwright.common.yaml import lines_of
from sparkwright.declared.recipe import check, rules
from sparkwright.declared.recipe.recipe import Recipe

RECIPES = FILES / "recipes"
# The recipes of a site, in whose folder every command runs.
OWN_RECIPES = Path("files", "recipes")

# The mappings that a recipe merges with those of the recipe that it extends.
_MERGED = ("args", "env", "checkpoints", "by_sparks")
# The keys that a recipe does not take over from it.
_OWN = ("description", "source", "proven", "expected")

# Keys of ours, one of which each file has; and keys of other projects'.
_OURS = {"extends", "checkpoints", "sparks"}
_THEIRS = {"recipe_version", "command", "container", "variants", "schema_version", "runtime"}


def recipe_files() -> dict[str, Path]:
    """Return the files of all recipes by their names, sorted: ours, and the site's own instead."""
    is_ours = OWN_RECIPES.absolute() == RECIPES
    folders = [RECIPES, *([] if is_ours else [OWN_RECIPES])]
    files = {path.stem: path for each in folders for path in each.glob("*.yaml")}
    return dict(sorted(files.items()))


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return [*recipe_files()]


def is_path(name: str) -> bool:
    """Tell whether the name of a recipe is the path of a file."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def is_ours(name: str) -> bool:
    """Tell whether a recipe is one of Sparkwright's own, whose name everybody may know."""
    return not is_path(name) and recipe_files().get(name, OWN_RECIPES).parent == RECIPES


def load_recipe(name: str) -> Recipe:
    """Read and check the recipe of a name, or of a file anywhere."""
    path = recipe_file(name)
    with lines_of(path):
        data = _read_file(path)
        if "extends" in data:
            data = _extended(path, data, data.pop("extends"))
        return checked({"name": path.stem, **data}, path)


def recipe_file(name: str) -> Path:
    """Return the file of a recipe."""
    if is_path(name):
        return Path(name)
    files = recipe_files()
    if name not in files:
        known = nearest(name, files)
        raise PlanError(f"{RECIPES}: found no recipe {name!r}; {known}")
    return files[name]


def checked(data: dict[str, Any], path: Path) -> Recipe:
    """Return the recipe of a file's data."""
    recipe = parse(Recipe, data, str(path))
    # The rules read the options, which have to be valid first.
    problems = [*check.problems(recipe)] or [*rules.problems(recipe)]
    refuse(f"{path}: {problem}" for problem in problems)
    return recipe


def _read_file(path: Path) -> dict[str, Any]:
    data = yaml.load(path)
    if not _OURS & data.keys() and _THEIRS & data.keys():
        raise PlanError(
            f"{path}: found a recipe of another project; expected one of ours: "
            f"`{next_line('recipes import')} {path.parent} {path.stem}` makes it one"
        )
    if "name" in data:
        found = f"found {shown(data['name'])}; expected no such key: the file has the name"
        raise PlanError(f"{path}: name: {found}")
    return data


def _extended(path: Path, data: dict[str, Any], base: object) -> dict[str, Any]:
    """Merge a file's content into that of the recipe that it extends."""
    others = [other for other in recipe_names() if other != path.stem]
    if base == path.stem:
        raise PlanError(f"{path}: extends: found itself; expected another recipe")
    if base not in others:
        expected = nearest(base if isinstance(base, str) else "", others)
        raise PlanError(f"{path}: extends: found {shown(base)}; {expected}")
    extended = _read_file(recipe_file(str(base)))
    if "extends" in extended:
        found = f"found {base}, which extends {extended['extends']}"
        raise PlanError(f"{path}: extends: {found}; expected a recipe that stands on its own")
    result = {key: value for key, value in extended.items() if key not in _OWN}
    for key, value in data.items():
        old = result.get(key)
        if key in _MERGED and isinstance(old, dict) and isinstance(value, dict):
            # YAML reads the key 2 as a number; null removes a key.
            merged = {str(name): each for kind in (old, value) for name, each in kind.items()}
            result[key] = {name: each for name, each in merged.items() if each is not None}
        else:
            result[key] = value
    return result
