"""Combinations of settings that are known not to work.

What vLLM itself refuses is not here: its own parser and configuration check read every recipe.
vLLM accepts what these rules refuse, or fails only after minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date

from sparkwright.common.errors import Finding, warning
from sparkwright.common.schema import shown
from sparkwright.declared.recipe.recipe import Recipe


@dataclass(frozen=True)
class OptionRule:
    """A value of an option that does not work.

    Attributes:
        options: The vLLM option, without dashes; other names for the same setting follow it.
        bad: Tells whether a recipe, as it is for one number of Sparks, breaks the rule.
        expected: What should stand there, and why, with the source.
        model: Part of the names of the repositories that it is about; empty = any.
    """

    options: tuple[str, ...]
    bad: Callable[[Recipe], bool]
    expected: str
    model: str = ""


@dataclass(frozen=True)
class Stale:
    """A repository whose older commits must not be used.

    Attributes:
        repo: OWNER/NAME, as on the hub.
        not_before: Day of the first good commit.
        reason: What older ones do, with the source.
    """

    repo: str
    not_before: date
    reason: str


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

STALE = (
    Stale(
        "z-lab/Qwen3.6-35B-A3B-DFlash",
        date(2026, 4, 19),
        "older ones crash beyond 16,000 tokens (github.com/AEON-7/Qwen3.6-NVFP4-DFlash, README.md)",
    ),
)


def problems(recipe: Recipe) -> Iterator[str]:
    """Yield what is known not to work, as ``KEY: found X; expected Y``."""
    for name, checkpoint in recipe.checkpoints.items():
        for stale in STALE:
            since = checkpoint.not_before
            if checkpoint.repo == stale.repo and (since is None or since < stale.not_before):
                yield (
                    f"checkpoints.{name}.not_before: found {since or 'nothing'}; "
                    f"expected {stale.not_before} or later: {stale.reason}"
                )
    broken = (problem for count in recipe.sparks for problem in _broken(recipe, str(count)))
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


def _broken(recipe: Recipe, count: str) -> Iterator[str]:
    """Yield the objections of the rules to a recipe with one number of Sparks."""
    merged = recipe.for_sparks(int(count))
    repo = recipe.checkpoints["model"].repo.lower() if "model" in recipe.checkpoints else ""
    own = recipe.by_sparks[count].args if count in recipe.by_sparks else {}
    for rule in RULES:
        if rule.model in repo and rule.bad(merged):
            option = next((each for each in rule.options if each in merged.args), rule.options[0])
            where = f"by_sparks.{count}." if option in own else ""
            found = shown(merged.args.get(option))
            yield f"{where}args.{option}: found {found}; expected {rule.expected}"
