"""Recipes of vllm-project/recipes, read as our own: each variant for a GB10 is one.

Keys, and in which order their options count: vllm-project/recipes, src/lib/command-synthesis.js and
taxonomy.yaml at 8959cf6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.declared.recipe.published.document import OTHER_COUNT, Document, Keys, NotForUs
from sparkwright.declared.recipe.published.serve_line import ShellError, Word, of_words
from sparkwright.declared.recipe.published.translated import Translated

_HARDWARE = "dgx_spark_gb10"
# What their taxonomy says of it: keys by which overrides name it beside its own.
_GENERAL = ("blackwell", "nvidia")
_ALL = (_HARDWARE, *_GENERAL)
# GB of one Spark there.
_MEMORY = 128
_ALONE, _TOGETHER = "single_node_tp", "multi_node_tp"
# The Sparks that share each layer of a model.
_COUNTS = (1, 2, 4, 8)
# What the image is of a recipe that names none.
_LATEST, _NIGHTLY = "vllm/vllm-openai:latest", "vllm/vllm-openai:nightly"
# Variants and features that are read; the sources' files have ten.
_MOST = 64


def is_vllm_project(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    return {"meta", "model", "variants"} <= data.keys()


def parts(data: Mapping[str, Any]) -> list[str]:
    """Return the names of a recipe's variants."""
    variants = data.get("variants")
    return [str(name) for name in variants][:_MOST] if isinstance(variants, dict) else []


def translate(document: Document, variant: str) -> Translated:
    """Translate a variant of such a recipe into a recipe of ours."""
    own: Keys = ("variants", variant)
    count = _count(document, variant)
    strategy = _TOGETHER if count > 1 else _ALONE
    layers = [*_layers(document, own, strategy)]
    # The variant names the model.
    words = [Word("model")]
    args = [(*keys, name) for keys in layers for name in ("extra_args", "vllm_args")]
    for keys in (("model", "base_args"), *args, *_features(document, variant, strategy)):
        for index, text in enumerate(document.texts(*keys)):
            words.append(Word(text, document.line(*keys, index), "$" in text))
    try:
        line = of_words(words)
    except ShellError as error:
        told = (f"{document.path}:{at}: args: {sentence}" for at, sentence in error.found)
        raise PlanError(*told) from None
    lines, env = dict(line.lines), {}
    envs = [(*keys, name) for keys in layers for name in ("extra_env", "env")]
    for keys in (("model", "base_env"), *envs):
        for name, value in document.mapping(*keys).items():
            env[name] = "$" if "$" in str(value) else str(value)
            lines[f"env.{name}"] = document.line(*keys, name)
    named: Keys = own if document.get(*own, "model_id") else ("model",)
    model = str(document.get(*named, "model_id"))
    lines["checkpoints"] = lines["sparks"] = document.line(*named, "model_id")
    image, keys = _image(document, own)
    lines["image"] = document.line(*keys)
    title = str(document.get("meta", "title") or model)
    state = document.get("meta", "hardware", _HARDWARE)
    return Translated(
        document,
        name=document.path.stem.replace("_", "-") + (f"-{variant}" if variant != "default" else ""),
        description=f"{title}, {document.get(*own, 'precision') or variant}",
        proven=f"By its authors on a Spark ({shown(state)}, they say).",
        image=image,
        model=model,
        runs={count: (line.options, env)},
        lines=lines,
    )


def _count(document: Document, variant: str) -> int:
    """Return the number of Sparks that a variant needs, by its memory."""
    if document.get("omni") is not None:
        sentence = "found a recipe of vLLM-Omni; expected one of vLLM"
        raise NotForUs("another engine", document.problem(("omni",), sentence))
    keys: Keys = ("meta", "hardware", _HARDWARE)
    if document.get(*keys) in (None, "unsupported"):
        raise NotForUs("no GB10", document.wrong(*keys, expected="verified or supported"))
    keys = ("variants", variant, "supported_hardware")
    if (allowed := document.texts(*keys)) and _HARDWARE not in allowed:
        raise NotForUs("no GB10", document.wrong(*keys, expected=f"{_HARDWARE} among them"))
    keys = ("variants", variant, "vram_minimum_gb")
    needed = document.get(*keys) or 0
    needed = needed if isinstance(needed, int | float) else 0
    count = next((each for each in _COUNTS if needed <= each * _MEMORY), 0)
    if not count:
        expected = f"{_COUNTS[-1] * _MEMORY} at most, those of {_COUNTS[-1]} Sparks"
        raise NotForUs(OTHER_COUNT, document.wrong(*keys, expected=expected))
    strategy = _TOGETHER if count > 1 else _ALONE
    granted = _keyed(document.mapping("strategy_hardware", strategy))
    if granted == "unsupported" or (
        granted is None and strategy not in document.texts("compatible_strategies")
    ):
        sentence = f"found no {strategy}; expected it: a Spark has one GPU of {_MEMORY} GB"
        problem = document.problem(("compatible_strategies",), sentence)
        raise NotForUs(OTHER_COUNT if count > 1 else "no GB10", problem)
    return count


def _keyed(values: Mapping[str, Any]) -> Any:
    """Return the value for a Spark of a mapping by hardware: the more exact key counts."""
    return next((values[key] for key in (*_ALL, "default") if values.get(key) is not None), None)


def _layers(document: Document, own: Keys, strategy: str) -> Iterator[Keys]:
    """Yield the ways to what a Spark's line is made of, in the order in which they count."""

    def general(*keys: str | int) -> list[Keys]:
        ways = [(*keys, "hardware_overrides", each) for each in _GENERAL]
        return [way for way in ways if document.get(*way) is not None][:1]

    plan: Keys = ("strategy_overrides", strategy)
    yield own
    yield (*own, "hardware_overrides", _HARDWARE)
    yield plan
    # A strategy's override for the generation takes the place of the recipe's and the variant's.
    yield from general(*plan) or [*general(), *general(*own)]
    yield (*plan, "hardware_overrides", _HARDWARE)


def _features(document: Document, variant: str, strategy: str) -> Iterator[Keys]:
    """Yield the ways to the options of the features that are on."""
    left_out = {*document.texts("opt_in_features")}
    left_out |= {*document.texts("hardware_opt_in_features", _HARDWARE)}
    for feature in [*document.mapping("features")][:_MOST]:
        keys: Keys = ("features", feature)
        strategies = document.texts(*keys, "strategies") or [strategy]
        refused = _keyed(document.mapping(*keys, "hardware")) == "unsupported"
        if feature in left_out or strategy not in strategies or refused:
            continue
        if modes := document.mapping(*keys, "modes"):
            mode = _mode(document, variant, feature, modes)
            if mode is None:
                continue
            keys = (*keys, "modes", mode)
        overrides = document.mapping(*keys, "hardware_overrides")
        exact = next((each for each in _ALL if each in overrides), None)
        if exact and document.get(*keys, "hardware_overrides", exact, "args") is not None:
            keys = (*keys, "hardware_overrides", exact)
        yield (*keys, "args")


def _mode(document: Document, variant: str, feature: str, modes: Mapping[str, Any]) -> str | None:
    """Return the one of a feature's modes that is on; None: none is for this variant."""
    keys: Keys = ("features", feature, "modes")
    allowed = [
        mode
        for mode in modes
        if variant in (document.texts(*keys, mode, "variants") or [variant])
        and _keyed(document.mapping(*keys, mode, "hardware")) != "unsupported"
    ]
    wanted = (
        document.get("variants", variant, "default_modes", feature),
        document.get("features", feature, "default_mode"),
        *allowed,
    )
    return next((mode for mode in wanted if mode in allowed), None)


def _image(document: Document, own: Keys) -> tuple[str, Keys]:
    """Return the image, and the way to what names it."""
    for keys in ((*own, "hardware_overrides", _HARDWARE), own, ("model",)):
        keys = (*keys, "docker_image")
        value = document.get(*keys)
        # By brand, and by CUDA's version; a Spark's driver has 13.
        for names in (("nvidia",), ("cu130", "cu129")):
            name = next((each for each in names if isinstance(value, dict) and each in value), None)
            keys = (*keys, name) if name else keys
            value = value[name] if name else value
        if isinstance(value, str):
            return value, keys
    nightly = document.get("model", "nightly_required") is True
    return (_NIGHTLY if nightly else _LATEST), ("model",)
