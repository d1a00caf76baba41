"""The faults of a recipe beyond the form of its single values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sparkwright.common.hardware import HARDWARE
from sparkwright.common.schema import NAME, NAME_RULE, nearest, shown, unknown
from sparkwright.declared.recipe import options, vllm_names
from sparkwright.declared.recipe.build import build_problems
from sparkwright.declared.recipe.recipe import BySparks, EngineSettings, Recipe
from sparkwright.declared.recipe.values import (
    COUNTS,
    LOG_LEVEL,
    OWN_ARGUMENTS,
    OWN_ENVIRONMENT,
    REFERENCE,
)
from sparkwright.declared.recipe.vllm_names import is_secret, normal
from sparkwright.declared.recipe.workloads import EXPECTED, METRICS

_DRAFTER_SIZE = "draft_tensor_parallel_size"
# Levels that show the phases of a start.
_SHOWING_START = ("debug", "info", "trace")


def problems(recipe: Recipe) -> Iterator[str]:
    """Yield the faults, as ``KEY: found X; expected Y``."""
    if not NAME.fullmatch(recipe.name):
        yield f"found the name {recipe.name!r}; expected {NAME_RULE}"
    yield from unknown("hardware", recipe.hardware, HARDWARE)
    if len({HARDWARE[name].arch for name in recipe.hardware if name in HARDWARE} - {None}) > 1:
        yield (
            f"hardware: found {', '.join(recipe.hardware)}; expected hardware classes with the "
            "same processor, since a recipe has one image"
        )
    if not set(recipe.sparks) <= {*COUNTS} or len(set(recipe.sparks)) < len(recipe.sparks):
        expected = f"a list of {' or '.join(map(str, COUNTS))}, each once"
        yield f"sparks: found {recipe.sparks}; expected {expected}"
    if "model" not in recipe.checkpoints:
        names = ", ".join(recipe.checkpoints) or "nothing"
        yield f"checkpoints: found {names}; expected one named model"
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
    known = vllm_names.options(recipe.release)
    yield from _setting_problems("", recipe, recipe.checkpoints, known)
    yield from _adapter_problems(recipe)
    if recipe.unjudged and not recipe.judged_by:
        yield "unjudged: found it without judged_by; expected the release that cannot judge them"
    every = [recipe, *recipe.by_sparks.values()]
    set_ = {name for each in every for name in (*each.args, *each.env)}
    yield from unknown("unjudged", recipe.unjudged, set_)
    yield from _answer_problems(recipe)
    yield from _split_problems(recipe)
    counts = [str(count) for count in recipe.sparks]
    for count, difference in recipe.by_sparks.items():
        if count not in counts:
            expected = f"{' or '.join(counts)}, which `sparks` lists; null removes an inherited one"
            yield f"by_sparks.{count}: found {count}; expected {expected}"
        yield from _setting_problems(f"by_sparks.{count}.", difference, recipe.checkpoints, known)


def _split_problems(recipe: Recipe) -> Iterator[str]:
    """Yield what is wrong with how a model is split, by each number of Sparks.

    A drafter runs on one GPU or on all that share a layer: vLLM ends otherwise
    (config/speculative.py).
    """
    for count in recipe.sparks:
        merged = recipe.for_sparks(count)
        if any(options.problems(merged.args)):
            continue
        stages, copies = merged.options.pipeline_parallel_size, merged.options.data_parallel_size
        if count % (stages * copies):
            option = f"{'pipeline' if stages > 1 else 'data'}-parallel-size"
            own = recipe.by_sparks.get(str(count), BySparks()).args
            place = f"by_sparks.{count}." if option in own else ""
            yield (
                f"{place}args.{option}: found {stages} stages and "
                f"{copies} copies (data-parallel-size) with sparks: {count}; expected a product "
                f"that divides {count}: the rest is tensor parallel"
            )
            continue
        size = (merged.options.speculative_config or {}).get(_DRAFTER_SIZE, 1)
        if size not in (1, merged.tensor_parallel(count)):
            found = f"found {_DRAFTER_SIZE} {shown(size)} with sparks: {count}"
            counts = " or ".join(map(str, sorted({1, merged.tensor_parallel(count)})))
            yield f"args.speculative-config: {found}; expected {counts}, as GPUs share a layer"


def _answer_problems(recipe: Recipe) -> Iterator[str]:
    """What an engine answers is vLLM's choice by its `runner`, and without one by the model."""
    runner = recipe.args.get("runner")
    if recipe.answers == "chat":
        if runner == "pooling":
            yield "answers: found chat with runner: pooling; expected embeddings or scores"
        return
    if runner != "pooling":
        found = shown(runner) if "runner" in recipe.args else "nothing"
        yield f"args.runner: found {found}; expected pooling, as answers is {recipe.answers}"
    if recipe.sparks != [1]:
        yield f"sparks: found {recipe.sparks}; expected [1], as answers is {recipe.answers}"


def _setting_problems(
    where: str, settings: Recipe | BySparks, checkpoints: Collection[str], known: Collection[str]
) -> Iterator[str]:
    names = {*known, *OWN_ARGUMENTS}
    for option in settings.args:
        # argparse takes the beginning of a name for the whole.
        longer = [each for each in names if each.startswith(normal(option))]
        if longer and normal(option) not in names:
            found = "found an abbreviated option, which vLLM would expand"
            yield f"{where}args.{option}: {found}; {nearest(option, longer)}"
    kinds = (("args", settings.args, OWN_ARGUMENTS), ("env", settings.env, OWN_ENVIRONMENT))
    for kind, values, own in kinds:
        for key, value in values.items():
            at = f"{where}{kind}.{key}"
            if key in own or (kind == "env" and key.upper() in own):
                yield f"{at}: found it set; expected it left out: Sparkwright sets it"
            elif is_secret(key):
                yield f"{at}: found a secret's name; expected no secret in a recipe"
            for reference in _references(value):
                if reference not in checkpoints:
                    expected = nearest(reference, checkpoints)
                    yield f"{at}: found ${{{reference}}}, which is no checkpoint; {expected}"
    wrong = [f"args.{problem}" for problem in options.problems(settings.args)]
    yield from (f"{where}{problem}" for problem in wrong or _log_problems(settings))
    yield from _figure_problems(where, settings.expected or {})


def _log_problems(settings: EngineSettings) -> Iterator[str]:
    """Yield the settings that would hide a start from the run that waits for it."""
    level, uvicorn = settings.env.get(LOG_LEVEL, "INFO"), settings.options.uvicorn_log_level
    remedy = (
        "remove it: it hides the start from the run and the doctor. To log less while serving, "
        'set log_level = "WARNING" in the group data'
    )
    if level.lower() not in _SHOWING_START:
        yield f"env.{LOG_LEVEL}: found {level}; {remedy}"
    if uvicorn.lower() not in _SHOWING_START:
        yield f"args.uvicorn-log-level: found {shown(uvicorn)}; {remedy}"
    if settings.env.get("VLLM_CONFIGURE_LOGGING", "1") == "0":
        yield f"env.VLLM_CONFIGURE_LOGGING: found 0; {remedy}"


def _adapter_problems(recipe: Recipe) -> Iterator[str]:
    """Yield what is wrong with LoRA adapters: each has to be a checkpoint that the lock pins."""
    for count, difference in recipe.by_sparks.items():
        for option in sorted({"lora-modules", "default-mm-loras"} & difference.args.keys()):
            yield (
                f"by_sparks.{count}.args.{option}: found adapters; expected them in the "
                "recipe's own args: names of models do not depend on the number of Sparks"
            )
    if any(options.problems(recipe.args)):
        return
    adapters = recipe.options.lora_modules
    if adapters and not recipe.options.enable_lora:
        yield "args.enable-lora: found it off; expected true, beside lora-modules"
    if recipe.options.default_mm_loras:
        yield (
            "args.default-mm-loras: found adapters for kinds of media; expected lora-modules: the "
            "names of models are what clients ask for"
        )
    names = [*recipe.served_names, *(adapter.name for adapter in adapters)]
    for adapter in adapters:
        at = f"args.lora-modules: {adapter.name}"
        if adapter.checkpoint == "model" or adapter.checkpoint not in recipe.checkpoints:
            known = ", ".join(f"${{{name}}}" for name in recipe.checkpoints if name != "model")
            yield (
                f"{at}: found {shown(adapter.path)}; expected an adapter among the recipe's "
                f"`checkpoints`, as {known or '${adapter}'}: its commit is in the lock, and its "
                "files are verified"
            )
        if names.count(adapter.name) > 1 or adapter.name.startswith("-"):
            yield f"{at}: found a name that is taken; expected each name of a model once"
        if adapter.base is not None and adapter.base not in recipe.served_names:
            base = nearest(adapter.base, recipe.served_names)
            yield f"{at}: found the base model {shown(adapter.base)}; {base}"


def _figure_problems(where: str, figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for workload, values in figures.items():
        if workload not in EXPECTED:
            known = nearest(workload, EXPECTED)
            yield f"{where}expected.{workload}: found an unknown workload; {known}"
        for metric in values:
            if metric not in METRICS:
                known = nearest(metric, METRICS)
                yield f"{where}expected.{workload}.{metric}: found an unknown figure; {known}"


def _references(value: object) -> Iterator[str]:
    """Names in ``${…}`` anywhere in a value."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item)
