"""The checkpoints of our recipes as the Hub has them: a file of size and config.json for each.

They take the place of a lock in a plan, and of the checkpoint in the check of recipes.
`python -m tests.recipes.add_model` writes them.
"""

import json
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from sparkwright.common.errors import PlanError
from sparkwright.common.paths import FILES
from sparkwright.common.schema import Model, Text, parse
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.plan import Load, Weights
from sparkwright.plan.release.model_config import Shape, shape_of

MODELS = FILES / "models"


class CheckpointData(Model):
    """The data of one repository on the Hub."""

    source: Text = Field(description="where size and configuration come from")
    size: int = Field(gt=0, lt=2**50, description="the bytes of its safetensors files")
    config: dict[str, Any] = Field(description="what its config.json has")

    @cached_property
    def shape(self) -> Shape | None:
        """The part of the configuration that decides memory; None if it is not supported."""
        return shape_of(self.config)


def data_file(repo: str) -> Path:
    """Return the path of a checkpoint's data, whether or not it is there."""
    return MODELS / f"{repo}.json"


def checkpoint_data(repo: str) -> CheckpointData | None:
    """Return the data of a checkpoint; None if there is no file of it."""
    path = data_file(repo)
    return _read(path) if path.exists() else None


@cache
def _read(path: Path) -> CheckpointData:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: found {error}; expected JSON") from None
    return parse(CheckpointData, data, str(path))


def nominal_load(recipe: Recipe, sparks: int) -> Load:
    """Return the load that a recipe makes; what is not known has no size and no shape in it."""
    checkpoints = {}
    for name, checkpoint in recipe.whole_models.items():
        data = checkpoint_data(checkpoint.repo)
        size, shape = (data.size, data.shape) if data else (0, None)
        checkpoints[name] = Weights(checkpoint.repo, size, shape)
    return Load(recipe, sparks, checkpoints)
