"""Recipes: what can be served, one YAML file a recipe."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from deploys.plan import yaml
from deploys.plan.errors import PlanError
from deploys.plan.hardware import HARDWARE
from deploys.plan.schema import NAME, NAME_RULE, Model, Text, matching, nearest, parse, shown

RECIPES = Path(__file__).parents[2] / "files" / "recipes"

# What stands beside the weights in the root folder of a Spark.
RESERVED_FOLDERS = ("releases", "current", "cache", "secrets", "manifests", "hf", "bin", "jobs")

# Options and variables that follow from the inventory, the lock or the way the engine is run.
OWN_ARGUMENTS = (
    *("model", "served-model-name", "tensor-parallel-size", "config"),
    *("host", "port", "uds", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
)
OWN_ENVIRONMENT = ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "VLLM_HOST_IP")

# A word that is a secret's name; recipes are public, a key or token in one would be as well.
_SECRET = re.compile(r"(^|[_-])(token|key|secret|password)$", re.IGNORECASE)

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_IMAGE = re.compile(
    r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})"
)
_OPTION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
REFERENCE = re.compile(r"\$\{([^}]*)\}")


def _folder(value: str) -> str:
    if not _FOLDER.fullmatch(value):
        raise ValueError("one folder name of letters, digits, '.', '_' and '-', below the root")
    if value in RESERVED_FOLDERS:
        raise ValueError(f"another folder than {', '.join(RESERVED_FOLDERS)}, which are in use")
    return value


def _argument(value: object) -> object:
    """Accept what a command line or JSON can hold: no null alone, no date, no NaN."""
    if isinstance(value, list):
        fits = bool(value) and all(_is_scalar(item) for item in value)
    else:
        fits = _is_json(value) if isinstance(value, dict) else _is_scalar(value)
    if not fits:
        raise ValueError(
            "true, false, a number, text on one line that does not start with '-', "
            "a list of these, or a mapping"
        )
    return value


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return value.isprintable() and not value.startswith("-")
    return isinstance(value, int | float) and math.isfinite(value)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_Option = Annotated[str, matching(_OPTION, "a long option of vLLM without its dashes")]
_Variable = Annotated[str, matching(_VARIABLE, "the name of an environment variable")]


class Checkpoint(Model):
    """A repository on the hub, and the folder below the root that holds it on a Spark."""

    repo: Annotated[str, matching(_REPO, "OWNER/NAME, as on the hub")] = Field(
        description="OWNER/NAME, as on the hub"
    )
    revision: Annotated[str, matching(_REVISION, "a branch, tag or commit")] = Field(
        default="main", description="a branch, tag or commit"
    )
    folder: Annotated[str, AfterValidator(_folder)] = Field(
        description="one folder name, such as qwen36-nvfp4"
    )


class Recipe(Model):
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
    image: Annotated[
        str, matching(_IMAGE, "an image with a tag or digest, such as example.org/name:1.0")
    ] = Field(description="an image with a tag or digest, such as example.org/name:1.0")
    checkpoints: dict[str, Checkpoint] = Field(
        description="a mapping with 'model' and, by names of your own, what else the engine loads"
    )
    served_names: list[Text] = Field(
        min_length=1, description="a list of the names that clients ask for"
    )
    args: dict[_Option, Annotated[Any, AfterValidator(_argument)]] = Field(
        default_factory=dict, description="a mapping of vLLM's options, without dashes"
    )
    env: dict[_Variable, Text] = Field(
        default_factory=dict, description="text in quotes (variables are strings)"
    )
    start_timeout: int = Field(
        ge=1, description="seconds until it must answer, a whole number above 0"
    )

    @property
    def stop_timeout(self) -> int:
        """Seconds that a stop may take: vLLM's drain, and 30 as its processes need up to 10."""
        return int(self.args.get("shutdown-timeout", 0)) + 30


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
    yield from _setting_problems(recipe)


def _setting_problems(recipe: Recipe) -> Iterator[str]:
    for kind, settings, own in (
        ("args", recipe.args, OWN_ARGUMENTS),
        ("env", recipe.env, OWN_ENVIRONMENT),
    ):
        for key, value in settings.items():
            if key in own:
                yield f"{kind}.{key}: found it set; expected it left out: Sparkwright sets it"
            elif _SECRET.search(key):
                yield f"{kind}.{key}: found a secret's name; expected no secret in a recipe"
            for reference in _references(value):
                if reference not in recipe.checkpoints:
                    known = nearest(reference, recipe.checkpoints)
                    yield f"{kind}.{key}: found ${{{reference}}}; expected a checkpoint: {known}"
    drain = recipe.args.get("shutdown-timeout", 0)
    if isinstance(drain, bool) or not isinstance(drain, int) or drain < 0:
        yield f"args.shutdown-timeout: found {shown(drain)}; expected whole seconds, 0 or more"


def _references(value: object) -> Iterator[str]:
    """Names in ``${…}`` anywhere in a value."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)
