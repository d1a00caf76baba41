"""Prints the memory plan of a recipe: python -m sparkwright.memory --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE, Hardware
from sparkwright.common.last_resort import guarded
from sparkwright.common.paths import inventory_file
from sparkwright.common.schema import nearest
from sparkwright.memory.check import judge
from sparkwright.memory.known_checkpoints import nominal_load
from sparkwright.memory.plan import Load, MemoryPlan, load_of, plan_memory
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.recipe import Recipe
from sparkwright.release.lock import lock_path, read_lock


def report(plan: MemoryPlan) -> Iterator[str]:
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
        (host, plan.host, "estimated"),
        ("free", plan.head_room, f"of {plan.total / GIB:.1f}"),
    ]
    for name, size, remark in parts:
        if size:
            yield f"{name:12}{size / GIB:8.2f} GiB  {remark}".rstrip()
    yield f"{plan.tokens:,} tokens of KV cache, as vLLM logs them"
    yield f"{plan.concurrency:.2f} requests of {plan.context:,} tokens at once"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan of a recipe and what is wrong with it. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright.memory", description="Plan the memory that a recipe takes."
    )
    parser.add_argument("recipe", help="name of a recipe (files/recipes)")
    parser.add_argument("--hardware", metavar="CLASS", help="default: the recipe's first")
    parser.add_argument("--sparks", type=int, metavar="N", help="default: the least")
    parser.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="take all sizes from its lock",
    )
    options = parser.parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe)
        hardware = _hardware(options.hardware or recipe.hardware[0])
        sparks = min(recipe.sparks) if options.sparks is None else options.sparks
        if sparks not in recipe.sparks:
            supported = " or ".join(map(str, recipe.sparks))
            raise PlanError(f"--sparks: found {sparks}; expected {supported} ({recipe.name})")
        load = _load(recipe.for_sparks(sparks), options, sparks)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    plan = plan_memory(load, int(hardware.total_gib * GIB), hardware.unified)
    print(f"# {recipe.name} on {_where(hardware, sparks)}")
    findings = list(judge(plan))
    print("\n".join([*report(plan), *map(str, findings)]))
    return 1 if any(finding.error for finding in findings) else 0


def _where(hardware: Hardware, sparks: int) -> str:
    if not hardware.unified:
        return hardware.name
    each = "one Spark" if sparks == 1 else f"each of {sparks} Sparks"
    return f"{each}, {hardware.name}"


def _hardware(name: str) -> Hardware:
    planned = {key: hardware for key, hardware in HARDWARE.items() if hardware.total_gib}
    if name not in planned:
        raise PlanError(f"--hardware: found {name}; {nearest(name, planned)}")
    return planned[name]


def _load(recipe: Recipe, options: argparse.Namespace, sparks: int) -> Load:
    """Return what is served, with the sizes of files/models, or else of the site's lock."""
    inventory = options.inventory or inventory_file()
    known = {} if options.inventory else nominal_load(recipe, sparks).checkpoints
    load = Load(recipe, sparks, {name: each for name, each in known.items() if each.size})
    if load.checkpoints.keys() != recipe.whole_models.keys():
        locked = load_of(recipe, read_lock(lock_path(inventory)), sparks)
        load = replace(load, checkpoints={**locked.checkpoints, **load.checkpoints})
    remedy = (
        f"it in {lock_path(inventory)}: `python -m deploys.lock {inventory}` records it once a "
        f"replica serves {recipe.name}"
    )
    if not options.inventory:
        remedy = (
            f"its data in files/models: `python -m sparkwright.memory.fetch {options.recipe}` "
            f"writes them into Sparkwright's source tree. Or {remedy}"
        )
    if absent := [
        c.repo for name, c in recipe.whole_models.items() if name not in load.checkpoints
    ]:
        raise PlanError(f"{recipe.name}: found no size of {', '.join(absent)}; expected {remedy}")
    if shapeless := [weights.repo for weights in load.shapeless]:
        raise PlanError(
            f"{recipe.name}: found no shape of {', '.join(shapeless)}; expected an architecture "
            "that the memory plan supports. If the size is of an older lock, which has no shapes: "
            f"`python -m deploys.lock {inventory} --refresh`"
        )
    return load


if __name__ == "__main__":
    sys.exit(guarded(main))
