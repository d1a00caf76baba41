"""Recipes: what can be served, one YAML file a recipe."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from deploys.plan import yaml
from deploys.plan.errors import PlanError
from deploys.plan.hardware import HARDWARE
from deploys.plan.recipe_values import (
    OWN_ARGUMENTS,
    OWN_ENVIRONMENT,
    Argument,
    Folder,
    Image,
    Option,
    Repository,
    Revision,
    Variable,
    is_secret,
)
from deploys.plan.schema import NAME, NAME_RULE, Model, Text, nearest, parse, shown

RECIPES = Path(__file__).parents[2] / "files" / "recipes"

# A checkpoint's name where its folder is meant.
# Seconds; with what a stop takes beside it, less than TimeoutStopSec of files/engine/vllm@.service.
LONGEST_DRAIN = 400

REFERENCE = re.compile(r"\$\{([^}]*)\}")


class Checkpoint(Model):
    """A repository on the hub, and the folder below the root that holds it on a Spark."""

    repo: Repository = Field(description="OWNER/NAME, as on the hub")
    revision: Revision = Field(default="main", description="a branch, tag or commit")
    folder: Folder = Field(description="one folder name, such as qwen36-nvfp4")


class Settings(Model):
    """What vLLM is started with."""

    args: dict[Option, Argument] = Field(
        default_factory=dict, description="a mapping of vLLM's options, without dashes"
    )
    env: dict[Variable, Text] = Field(
        default_factory=dict, description="text in quotes (variables are strings)"
    )


class Difference(Settings):
    """What is another with one number of Sparks; each value replaces the recipe's own."""

    start_timeout: int | None = Field(
        default=None, ge=1, description="seconds until it must answer, a whole number above 0"
    )


def _text_keys(value: object) -> object:
    """YAML reads a count as a number; messages name keys."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


class Recipe(Settings):
    """One thing that can be served, and with what."""

    name: str
    description: str = Field(description="a sentence on what it serves")
    source: str = Field(description="where its settings come from")
    vllm: Text = Field(min_length=1, description="the vLLM version in the image, such as '0.33.0'")
    hardware: list[str] = Field(
        min_length=1, description="a list of hardware classes, such as [gb10]"
    )
    sparks: list[int] = Field(
        min_length=1, description="a list of Spark counts, such as [1] or [1, 2]"
    )
    image: Image = Field(description="an image with a tag or digest, such as example.org/name:1.0")
    checkpoints: dict[str, Checkpoint] = Field(
        description="a mapping with 'model' and, by names of your own, what else the engine loads"
    )
    served_names: list[Text] = Field(
        min_length=1, description="a list of the names that clients ask for"
    )
    by_sparks: Annotated[dict[str, Difference], BeforeValidator(_text_keys)] = Field(
        default_factory=dict,
        description="a mapping of Spark counts to what differs, such as 2: {args: {…}, env: {…}}",
    )
    start_timeout: int = Field(
        ge=1, description="seconds until it must answer, a whole number above 0"
    )

    @property
    def stop_timeout(self) -> int:
        """Seconds that a stop may take: vLLM's drain, and 30 as its processes need up to 10."""
        return int(self.args.get("shutdown-timeout", 0)) + 30

    def for_sparks(self, count: int) -> Recipe:
        """Return the recipe as it is for one number of Sparks.

        Args:
            count: Number of Sparks in the replica.

        Returns:
            The recipe with what ``by_sparks`` says of that number in place, and no ``by_sparks``.
        """
        own = self.by_sparks.get(str(count), Difference())
        changes = {
            "args": self.args | own.args,
            "env": self.env | own.env,
            "start_timeout": own.start_timeout or self.start_timeout,
            "by_sparks": {},
        }
        return self.model_copy(update=changes)


def recipe_names(folder: Path = RECIPES) -> list[str]:
    """Names of all recipes, sorted.

    Args:
        folder: Where the recipes are.
    """
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load_recipe(name: str, folder: Path = RECIPES) -> Recipe:
    """Read and check one recipe.

    Args:
        name: Its name: that of its file without ``.yaml``.
        folder: Where the recipes are.

    Raises:
        PlanError: There is no such recipe (with the nearest name), or all that is wrong with it.
    """
    names = recipe_names(folder)
    if name not in names:
        raise PlanError(f"{folder}: found no recipe {name!r}; expected {nearest(name, names)}")
    path = folder / f"{name}.yaml"
    data = yaml.load(path)
    if "name" in data:
        found = shown(data["name"])
        raise PlanError(f"{path}: name: found {found}; expected no such key: the file has the name")
    recipe = parse(Recipe, {"name": name, **data}, str(path))
    problems = [f"{path}: {problem}" for problem in _problems(recipe)]
    if problems:
        raise PlanError(*problems)
    return recipe


def _problems(recipe: Recipe) -> Iterator[str]:
    if not NAME.fullmatch(recipe.name):
        yield f"found the name {recipe.name!r}; expected {NAME_RULE}"
    for hardware in recipe.hardware:
        if hardware not in HARDWARE:
            yield f"hardware: found {hardware}; expected {nearest(hardware, HARDWARE)}"
    if not set(recipe.sparks) <= {1, 2} or len(set(recipe.sparks)) < len(recipe.sparks):
        yield f"sparks: found {recipe.sparks}; expected [1], [2] or [1, 2]"
    if "model" not in recipe.checkpoints:
        found = ", ".join(recipe.checkpoints) or "nothing"
        yield f"checkpoints: found {found}; expected one named model"
    folders: dict[str, str] = {}
    for name, checkpoint in recipe.checkpoints.items():
        other = folders.setdefault(checkpoint.folder, name)
        if other != name:
            yield (
                f"checkpoints.{name}.folder: found {checkpoint.folder}, which {other} uses; "
                "expected a folder of its own"
            )
    for name in recipe.served_names:
        if name.startswith("-") or recipe.served_names.count(name) > 1:
            yield f"served_names: found {name}; expected each name once, none that starts with '-'"
    yield from _setting_problems("", recipe, recipe.checkpoints)
    counts = [str(count) for count in recipe.sparks]
    for count, difference in recipe.by_sparks.items():
        if count not in counts:
            expected = " or ".join(counts)
            yield f"by_sparks.{count}: found {count}; expected {expected}, which `sparks` lists"
        yield from _setting_problems(f"by_sparks.{count}.", difference, recipe.checkpoints)


def _setting_problems(
    where: str, settings: Settings, checkpoints: Collection[str]
) -> Iterator[str]:
    kinds = (("args", settings.args, OWN_ARGUMENTS), ("env", settings.env, OWN_ENVIRONMENT))
    for kind, values, own in kinds:
        for key, value in values.items():
            at = f"{where}{kind}.{key}"
            if key in own:
                yield f"{at}: found it set; expected it left out: Sparkwright sets it"
            elif is_secret(key):
                yield f"{at}: found a secret's name; expected no secret in a recipe"
            for reference in _references(value):
                if reference not in checkpoints:
                    known = nearest(reference, checkpoints)
                    yield f"{at}: found ${{{reference}}}; expected a checkpoint: {known}"
    drain = settings.args.get("shutdown-timeout", 0)
    if isinstance(drain, bool) or not isinstance(drain, int) or not 0 <= drain <= LONGEST_DRAIN:
        found = shown(drain)
        expected = f"whole seconds, 0 to {LONGEST_DRAIN}"
        yield f"{where}args.shutdown-timeout: found {found}; expected {expected}"


def _references(value: object) -> Iterator[str]:
    """Names in ``${…}`` anywhere in a value."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)
