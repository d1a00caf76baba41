"""The checkpoints of our recipes as the Hub has them, and the plan of a recipe by them, as text.

A file of size and config.json for each takes the place of a lock in a plan, and of the checkpoint
in the check of recipes.
`python -m tests.recipes.add_model` writes them.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.common.paths import FILES, inventory_file
from sparkwright.common.schema import Model, Text, nearest, parse
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.plan import Load, MemoryPlan, Weights, load_of, plan_memory
from sparkwright.plan.release.lock import lock_path, read_lock
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


def show(
    name: str, hardware: str | None = None, sparks: int | None = None, locked: bool = False
) -> tuple[str, bool]:
    """Return the plan of a recipe with what is wrong with it, and whether it fits.

    Without hardware and number of Sparks it is that of the recipe's first, and the least. `locked`
    takes all sizes from the site's lock, not from files/models.
    """
    recipe = load_recipe(name)
    named = hardware or recipe.hardware[0]
    planned = {key: each for key, each in HARDWARE.items() if each.total_gib}
    if named not in planned:
        raise PlanError(f"--hardware: found {named}; {nearest(named, planned)}")
    count = recipe.checked_sparks(sparks)
    load = _load(recipe.for_sparks(count), locked, count)
    plan, findings = plan_memory(load, planned[named]), memory_findings(load, planned[named], 0, 0)
    where = named
    if planned[named].unified:
        where = f"{'one Spark' if count == 1 else f'each of {count} Sparks'}, {named}"
    said = [*(_report(plan) if plan else ()), *map(str, findings)]
    lines = [f"# {recipe.name} on {where}", *said]
    return "\n".join(lines), not any(finding.error for finding in findings)


def _load(recipe: Recipe, locked: bool, sparks: int) -> Load:
    """Return what is served, with the sizes of files/models, or else of the site's lock."""
    path = lock_path(inventory_file())
    known = {} if locked else nominal_load(recipe, sparks).checkpoints
    load = Load(recipe, sparks, {key: each for key, each in known.items() if each.size})
    if load.checkpoints.keys() != recipe.whole_models.keys():
        others = load_of(recipe, read_lock(path), sparks)
        load = replace(load, checkpoints={**others.checkpoints, **load.checkpoints})
    remedy = f"it in {path}: `{next_line('lock')}` records it once a replica serves {recipe.name}"
    if absent := [c.repo for key, c in recipe.whole_models.items() if key not in load.checkpoints]:
        raise PlanError(f"{recipe.name}: found no size of {', '.join(absent)}; expected {remedy}")
    if shapeless := [weights.repo for weights in load.shapeless]:
        raise PlanError(
            f"{recipe.name}: found no shape of {', '.join(shapeless)}; expected an architecture "
            "that the memory plan supports. If the size is of an older lock, which has no shapes: "
            f"`{next_line('lock', '--refresh')}`"
        )
    return load


def _report(plan: MemoryPlan) -> Iterator[str]:
    """Yield the lines of a plan: one for each part, in GiB of one Spark."""
    flags = plan.flags
    host = "host" if plan.unified else "driver"
    reserved = "" if flags.graphs_in_share else ", not in the share"
    parts = [
        ("weights", plan.weights, ""),
        ("drafter", plan.drafter, ""),
        ("steps", plan.activations, f"{flags.batched} tokens, {flags.sequences} requests"),
        ("CUDA graphs", plan.graphs, f"up to {flags.captured} tokens{reserved}"),
        ("KV cache", plan.kv_bytes, f"{plan.blocks} blocks of {plan.cache.groups} groups"),
        (host, plan.host - plan.standby, "estimated"),
        ("standby", plan.standby, "beside an engine that serves"),
        ("free", plan.head_room, f"of {plan.total / GIB:.1f}"),
    ]
    for name, size, remark in parts:
        if size:
            yield f"{name:12}{size / GIB:8.2f} GiB  {remark}".rstrip()
    yield f"{plan.tokens:,} tokens of KV cache, as vLLM logs them"
    yield f"{plan.concurrency:.2f} requests of {plan.context:,} tokens at once"
