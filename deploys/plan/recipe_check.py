"""What is wrong with a recipe beyond the form of its single values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from deploys.plan.build import build_problems
from deploys.plan.hardware import HARDWARE
from deploys.plan.recipe import Recipe, Settings
from deploys.plan.recipe_values import OWN_ARGUMENTS, OWN_ENVIRONMENT, REFERENCE, is_secret
from deploys.plan.schema import NAME, NAME_RULE, nearest, shown
from deploys.plan.workloads import METRICS, WORKLOADS

# Seconds; with what a stop takes beside it, less than TimeoutStopSec of files/engine/vllm@.service.
LONGEST_DRAIN = 400


def problems(recipe: Recipe) -> Iterator[str]:
    """Say what cannot be, as ``KEY: found X; expected Y``.

    Args:
        recipe: The recipe, each value of which is well-formed.
    """
    if not NAME.fullmatch(recipe.name):
        yield f"found the name {recipe.name!r}; expected {NAME_RULE}"
    for hardware in recipe.hardware:
        if hardware not in HARDWARE:
            yield f"hardware: found {hardware}; expected {nearest(hardware, HARDWARE)}"
    if len({HARDWARE[name].arch for name in recipe.hardware if name in HARDWARE} - {None}) > 1:
        found = ", ".join(recipe.hardware)
        yield f"hardware: found {found}; expected classes of one processor, with one image"
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
    if recipe.build:
        yield from build_problems(recipe.build)
    yield from _setting_problems("", recipe, recipe.checkpoints)
    yield from _figure_problems("", recipe.expected)
    counts = [str(count) for count in recipe.sparks]
    for count, difference in recipe.by_sparks.items():
        if count not in counts:
            expected = " or ".join(counts)
            yield f"by_sparks.{count}: found {count}; expected {expected}, which `sparks` lists"
        yield from _setting_problems(f"by_sparks.{count}.", difference, recipe.checkpoints)
        yield from _figure_problems(f"by_sparks.{count}.", difference.expected or {})


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


def _figure_problems(where: str, figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for workload, values in figures.items():
        if workload not in WORKLOADS:
            known = nearest(workload, WORKLOADS)
            yield f"{where}expected.{workload}: found an unknown workload; expected {known}"
        for metric in values:
            if metric not in METRICS:
                known = nearest(metric, METRICS)
                yield f"{where}expected.{workload}.{metric}: found it; expected {known}"


def _references(value: object) -> Iterator[str]:
    """Names in ``${…}`` anywhere in a value."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)
