"""What is known of combinations of settings, of checkpoints and of vLLM's releases.

What vLLM itself refuses is not here: its own parser and configuration check read every recipe.
vLLM accepts what these rules refuse, or fails only after minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.errors import Finding, warning
from sparkwright.common.schema import shown
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.vllm_names import Release, number


@dataclass(frozen=True)
class OptionRule:
    """A value of an option, or of its other names, that does not work."""

    options: tuple[str, ...]
    # Of a recipe as it is for one number of Sparks.
    bad: Callable[[Recipe], bool]
    # What should stand there, and why, with the source.
    expected: str
    # Part of the names of the repositories that it is about; empty = any.
    model: str = ""


def _fp8(recipe: Recipe) -> bool:
    return recipe.options.kv_cache_dtype.startswith("fp8")


def _before(recipe: Recipe, minor: int) -> bool:
    """Tell whether the vLLM is known to be older than 0.MINOR."""
    return recipe.release is not None and recipe.release < (0, minor)


def _races(recipe: Recipe) -> bool:
    """Tell whether the prefix cache is filled while a step is under way."""
    return (
        recipe.caches_prefixes
        and recipe.options.async_scheduling is not False
        and recipe.env.get("VLLM_USE_V2_MODEL_RUNNER") != "1"
        and _before(recipe, 29)
    )


RULES = (
    # Found with NVFP4. The state of the other layers is not set yet when the scales are calculated;
    # 0.19.0 and later leave them at 1 (vllm-project/vllm, 37554 and 37565).
    OptionRule(
        ("calculate-kv-scales",),
        lambda recipe: recipe.options.calculate_kv_scales and _fp8(recipe) and _before(recipe, 19),
        "it left out: the scales that this vLLM calculates for a model with linear attention are "
        "wrong, and answers become gibberish (huggingface.co/ig1/Qwen3.5-35B-A3B-NVFP4; "
        "vllm-project/vllm, 37565)",
        model="qwen3.",
    ),
    # GB10 has FlashAttention 2, which takes no fp8; the engine ends minutes after it started.
    OptionRule(
        ("kv-cache-dtype",),
        lambda recipe: _fp8(recipe) and recipe.options.attention == "flash_attn",
        "it left out: attention-backend flash_attn, which DFlash needs, does not take it "
        "(github.com/AEON-7/Qwen3.6-NVFP4-DFlash, docs/troubleshooting.md)",
    ),
    # vLLM 0.33.0, run: the model keeps its own rope_parameters.
    OptionRule(
        ("hf-overrides",),
        lambda recipe: bool(
            {"rope_parameters", "rope_scaling"} & {*(recipe.options.hf_overrides or ())}
        ),
        "rope_parameters inside text_config: at the top level they change nothing, and a longer "
        "context than the model's is nonsense",
        model="qwen3.",
    ),
    # Found on 0.28.0 and before; nothing is known of later ones. The V2 model runner has no such
    # race: its counts stay on the GPU (vllm-project/vllm, 51599).
    OptionRule(
        ("speculative-config", "spec-method"),
        lambda recipe: recipe.options.mtp and _races(recipe),
        "enable-prefix-caching: false or async-scheduling: false beside MTP: else answers, tool "
        "calls first, are wrong now and then (vllm-project/vllm, 53912 and 53919; "
        "NVIDIA/dgx-spark-playbooks, 89)",
        model="qwen3.",
    ),
)

# Repositories whose older commits must not be used: the day of the first good one, and the source.
STALE = {
    "z-lab/Qwen3.6-35B-A3B-DFlash": (
        date(2026, 4, 19),
        "older ones crash beyond 16,000 tokens (github.com/AEON-7/Qwen3.6-NVFP4-DFlash, README.md)",
    ),
}


def problems(recipe: Recipe) -> Iterator[str]:
    """Yield what is known not to work, as ``KEY: found X; expected Y``."""
    for name, checkpoint in recipe.checkpoints.items():
        good, reason = STALE.get(checkpoint.repo, (date.min, ""))
        if (checkpoint.not_before or date.min) < good:
            found = f"found {checkpoint.not_before or 'nothing'}; expected {good} or later"
            yield f"checkpoints.{name}.not_before: {found}: {reason}"
    broken = (problem for count in recipe.sparks for problem in _broken(recipe, count))
    yield from dict.fromkeys(broken)


def doubts(recipe: Recipe, trusted: Collection[str] = ()) -> Iterator[Finding]:
    """Yield warnings about what sources disagree on; an option's name in `trusts` ends its own."""
    repo = recipe.checkpoints["model"].repo
    is_doubtful = _fp8(recipe) and "qwen3.5-35b-a3b" in repo.lower()
    if is_doubtful and "kv-cache-dtype" not in trusted:
        yield warning(
            f"recipe {recipe.name} keeps the KV cache of {repo} in fp8, with scales of 1, as vLLM "
            "loads none for this model (vllm-project/vllm, 54623). Others measured its speed so; "
            "of its answers nothing is published, and one source advises against it",
            "Compare answers, or leave kv-cache-dtype out. The word kv-cache-dtype in the "
            "replica's `trusts` ends this warning",
        )


def _broken(recipe: Recipe, count: int) -> Iterator[str]:
    """Yield the objections of the rules to a recipe with one number of Sparks."""
    merged = recipe.for_sparks(count)
    repo = recipe.checkpoints["model"].repo.lower()
    own = recipe.by_sparks[str(count)].args if str(count) in recipe.by_sparks else {}
    for rule in RULES:
        if rule.model in repo and rule.bad(merged):
            option = next((each for each in rule.options if each in merged.args), rule.options[0])
            where = f"by_sparks.{count}." if option in own else ""
            found = shown(merged.args.get(option))
            yield f"{where}args.{option}: found {found}; expected {rule.expected}"


@cache
def advisories() -> tuple[dict[str, Any], ...]:
    """Return the published advisories about releases of vLLM, as advisories.yaml has them."""
    return tuple(yaml.load(Path(__file__).with_name("advisories.yaml"))["advisories"])


def published_faults(recipe: Recipe) -> str | None:
    """Return a sentence that names the advisories about a recipe's vLLM; None: there are none.

    There are none where its ``vllm`` names no version. A build that is no release may lack the fix
    of the release that it is nearest to.
    """
    match = re.search(r"\d+\.\d+\.\d+", recipe.vllm)
    if match is None:
        return None
    version, is_release = number(match[0]), match[0] == recipe.vllm
    found: dict[str, Release] = {}
    for each in advisories():
        first, fixed = number(each.get("first", "0")), number(each["fixed"])
        if first <= version < fixed or (version == fixed and not is_release):
            found[each["id"]] = fixed
    if not found:
        return None
    newest = ".".join(map(str, max(found.values())))
    return (
        f"recipe {recipe.name} has vLLM {recipe.vllm}, of which faults are published: "
        f"{', '.join(found)}. A recipe with {newest} or later has none of these; what each is: "
        "docs/recipes.md"
    )
