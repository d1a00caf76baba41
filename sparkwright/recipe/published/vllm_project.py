"""Recipes of vllm-project/recipes, read as our own: each variant for a GB10 is one.

Keys, and in which order their options count: vllm-project/recipes, src/lib/command-synthesis.js and
taxonomy.yaml at 8959cf6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest, shown
from sparkwright.recipe.published.document import Document, Keys
from sparkwright.recipe.published.draft import (
    Draft,
    NotForUs,
    Origin,
    Translated,
    recipe_name,
    translated,
)
from sparkwright.recipe.published.serve_line import ServeLine, of_words
from sparkwright.recipe.published.shell import ShellError, Word

_HARDWARE = "dgx_spark_gb10"
# What their taxonomy says of it: keys by which overrides name it beside its own.
_GENERATION, _BRAND = "blackwell", "nvidia"
# GB of one Spark there.
_MEMORY = 128
_ALONE, _PAIR = "single_node_tp", "multi_node_tp"
# What the image is of a recipe that names none.
_LATEST, _NIGHTLY = "vllm/vllm-openai:latest", "vllm/vllm-openai:nightly"


def is_vllm_project(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    return {"meta", "model", "variants"} <= data.keys()


def parts(data: Mapping[str, Any]) -> list[str]:
    """Return the names of a recipe's variants."""
    variants = data.get("variants")
    return [str(name) for name in variants] if isinstance(variants, dict) else []


def translate(document: Document, origin: Origin, variant: str) -> Translated:
    """Translate a variant of such a recipe into a recipe of ours.

    Raises:
        NotForUs: It is for another engine or other hardware.
        PlanError: All that cannot be translated, or there is no such variant.
    """
    variants = document.mapping("variants")
    if variant not in variants:
        expected = nearest(variant, variants)
        raise document.error(("variants",), f"found no variant {variant}; {expected}")
    pair = _audience(document, variant)
    strategy = _PAIR if pair else _ALONE
    words = [*_words(document, variant, strategy)]
    line = _line(document, words)
    lines = {key: at for key, _, at in line.places()}
    model_keys: Keys = ("variants", variant, "model_id")
    model = document.get(*model_keys)
    if model is None:
        model_keys = ("model", "model_id")
        model = document.get(*model_keys)
    lines["checkpoints"] = lines["sparks"] = document.line(model_keys)
    image, image_keys = _image(document, variant)
    lines["image"] = document.line(image_keys)
    env = {}
    for keys in _environments(document, variant, strategy):
        for name, value in document.mapping(*keys).items():
            env[name] = "$" if "$" in str(value) else str(value)
            lines[f"env.{name}"] = document.line((*keys, name))
    least = document.get("variants", variant, "min_vllm_version")
    names = [document.path.stem, *([] if variant == "default" else [variant])]
    draft = Draft(
        origin=origin,
        name=recipe_name(*names).replace("_", "-"),
        description=str(document.get("meta", "title") or model)
        + f", {document.get('variants', variant, 'precision') or variant}",
        proven=_proven(document),
        image=image,
        least=least or document.get("model", "min_vllm_version"),
        model=str(model),
        options=line.options,
        env=env,
        lines=lines,
        key=f"variants.{variant}",
        sparks=[2 if pair else 1],
        remarks=document.remarks,
    )
    return translated(draft)


def _proven(document: Document) -> str:
    state = document.get("meta", "hardware", _HARDWARE)
    return f"By its authors on a Spark ({state}, they say); here, by nobody that we know of."


def _audience(document: Document, variant: str) -> bool:
    """Tell whether a variant needs two Sparks.

    Raises:
        NotForUs: It is for another engine or other hardware.
    """
    if document.get("omni") is not None:
        sentence = "found a recipe of vLLM-Omni; expected one of vLLM"
        raise NotForUs("another engine", document.problem(("omni",), sentence))
    state = document.get("meta", "hardware", _HARDWARE)
    if state in (None, "unsupported"):
        sentence = f"found {_HARDWARE}: {shown(state)}; expected verified or supported"
        raise NotForUs("no GB10", document.problem(("meta", "hardware", _HARDWARE), sentence))
    allowed = document.texts("variants", variant, "supported_hardware")
    if allowed and _HARDWARE not in allowed:
        keys: Keys = ("variants", variant, "supported_hardware")
        sentence = f"found {shown(allowed)}; expected {_HARDWARE} among them"
        raise NotForUs("no GB10", document.problem(keys, sentence))
    needed = document.get("variants", variant, "vram_minimum_gb") or 0
    if not isinstance(needed, int | float) or needed <= _MEMORY:
        if _offers(document, _ALONE):
            return False
        keys = ("compatible_strategies",)
        sentence = f"found no {_ALONE}; expected it: one Spark has one GPU"
        raise NotForUs("no GB10", document.problem(keys, sentence))
    keys = ("variants", variant, "vram_minimum_gb")
    if needed > 2 * _MEMORY:
        sentence = f"found {needed} GB; expected {2 * _MEMORY} at most, those of two Sparks"
        raise NotForUs("more than two Sparks", document.problem(keys, sentence))
    if not _offers(document, _PAIR):
        sentence = f"found {needed} GB, two Sparks', but no {_PAIR} among compatible_strategies"
        raise NotForUs("more than two Sparks", document.problem(keys, f"{sentence}; expected it"))
    return True


def _offers(document: Document, strategy: str) -> bool:
    granted = _keyed(document.mapping("strategy_hardware", strategy))
    if granted is not None:
        return bool(granted != "unsupported")
    return strategy in document.texts("compatible_strategies")


def _keyed(values: Mapping[str, Any]) -> Any:
    """Return the value for a Spark of a mapping by hardware: the more exact key counts."""
    keys = (_HARDWARE, _GENERATION, _BRAND, "default")
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _general(document: Document, *keys: str) -> Keys | None:
    """Return the way to an override for the generation, or for the brand; None: there is none."""
    for each in (_GENERATION, _BRAND):
        if document.get(*keys, "hardware_overrides", each) is not None:
            return (*keys, "hardware_overrides", each)
    return None


def _layers(document: Document, variant: str, strategy: str) -> Iterator[Keys]:
    """Yield the ways to what a Spark's line is made of, in the order in which they count.

    A strategy's override for the generation takes the place of the recipe's and the variant's.
    """
    own: Keys = ("variants", variant)
    yield own
    yield (*own, "hardware_overrides", _HARDWARE)
    plan: Keys = ("strategy_overrides", strategy)
    yield plan
    override = _general(document, "strategy_overrides", strategy)
    if override:
        yield override
    else:
        for keys in (_general(document), _general(document, "variants", variant)):
            if keys:
                yield keys
    yield (*plan, "hardware_overrides", _HARDWARE)


def _arguments(document: Document, variant: str, strategy: str) -> Iterator[Keys]:
    """Yield the ways to all lists of options."""
    yield ("model", "base_args")
    for keys in _layers(document, variant, strategy):
        yield (*keys, "extra_args")
        if keys[0] == "strategy_overrides" and len(keys) == 2:
            yield (*keys, "vllm_args")
    left_out = {*document.texts("opt_in_features")}
    left_out |= {*document.texts("hardware_opt_in_features", _HARDWARE)}
    for feature in document.mapping("features"):
        if feature not in left_out:
            yield from _feature(document, variant, strategy, feature)


def _feature(document: Document, variant: str, strategy: str, feature: str) -> Iterator[Keys]:
    keys: Keys = ("features", feature)
    strategies = document.texts(*keys, "strategies")
    if strategies and strategy not in strategies:
        return
    if _keyed(document.mapping(*keys, "hardware")) == "unsupported":
        return
    if modes := document.mapping(*keys, "modes"):
        mode = _mode(document, variant, feature, modes)
        if mode is None:
            return
        keys = (*keys, "modes", mode)
    overrides = document.mapping(*keys, "hardware_overrides")
    exact = next((each for each in (_HARDWARE, _GENERATION, _BRAND) if each in overrides), None)
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


def _words(document: Document, variant: str, strategy: str) -> Iterator[Word]:
    """Yield all words of the options; their lines are those of the file, from 1."""
    for keys in _arguments(document, variant, strategy):
        for index, text in enumerate(document.texts(*keys)):
            yield Word(text, document.line((*keys, index)), "$" in text)


def _line(document: Document, words: list[Word]) -> ServeLine:
    try:
        # The variant names the model.
        return of_words([Word("model"), *words])
    except ShellError as error:
        raise PlanError(
            *(f"{document.path}:{line}: args: {sentence}" for line, sentence in error.found)
        ) from None


def _environments(document: Document, variant: str, strategy: str) -> Iterator[Keys]:
    yield ("model", "base_env")
    for keys in _layers(document, variant, strategy):
        yield (*keys, "extra_env")
        if keys[0] == "strategy_overrides" and len(keys) == 2:
            yield (*keys, "env")


def _image(document: Document, variant: str) -> tuple[str, Keys]:
    """Return the image, and the way to what names it."""
    exact: Keys = ("variants", variant, "hardware_overrides", _HARDWARE, "docker_image")
    for keys in (exact, ("variants", variant, "docker_image"), ("model", "docker_image")):
        value = document.get(*keys)
        if isinstance(value, dict) and _BRAND in value:
            value, keys = value[_BRAND], (*keys, _BRAND)
        if isinstance(value, dict):
            # By CUDA's version; a Spark's driver has 13.
            key = next((each for each in ("cu130", "cu129") if each in value), "")
            value, keys = value.get(key), (*keys, key)
        if isinstance(value, str):
            return value, keys
    nightly = document.get("model", "nightly_required") is True
    return (_NIGHTLY if nightly else _LATEST), ("model",)
