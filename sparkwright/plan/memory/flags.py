"""The memory settings of a recipe's options and environment, with vLLM's defaults for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.options import AUTO
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.values import REFERENCE
from sparkwright.plan.memory.kv_cache import CacheSettings
from sparkwright.plan.release.model_config import Shape

# The first release with each behavior, read in vLLM's source. Between 0.19.1 and 0.20.2 these
# changed: the default share (config/cache.py: 0.9, then 0.92); whether graphs count in it (envs.py:
# 0, then 1, though later logs say "since v0.21.0"); how the size in tokens is logged
# (v1/core/kv_cache_utils.py).
_UTILIZATION_092 = _GRAPHS_IN_SHARE = TOKENS_BY_CONCURRENCY = (0, 20, 0)
# Before, `max-model-len: auto` counts only the first group of layers (_max_memory_usage_bytes_from_
# groups of v1/core/kv_cache_utils.py, 0.18.0 and 0.19.0): a hybrid's is of linear attention.
AUTO_COUNTS_ALL = (0, 19, 0)
# The release that stands for an image which names none.
_NEWEST = (0, 33, 0)
_ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@dataclass(frozen=True, kw_only=True)
class Flags(CacheSettings):
    """The memory settings of one engine.

    Attributes:
        release: Version of the vLLM that stands for the image's own.
        utilization: Share of the memory that vLLM takes, 0 to 1.
        kv_bytes: Bytes of the KV cache, if the recipe names them; then the share does not size it.
        context: Tokens of the longest request; None = as many as fit.
        sequences: Requests that run at once, at the most.
        drafter: Name of the checkpoint that drafts tokens, if it is not the model's own.
        captured: Tokens of the largest CUDA graph; 0 = none are made.
        whole_steps: Whether graphs hold whole steps, as the options have it.
        graphs_in_share: Whether vLLM leaves room for the graphs within its share.
        vision: Whether the vision encoder is loaded.
        halved: Whether weights become FP8 as they load.
        table_on_disk: Whether a table of n-grams stays on the disk (local-inference-lab's vLLM).
    """

    release: tuple[int, ...]
    utilization: float
    kv_bytes: int | None
    context: int | None
    sequences: int
    drafter: str | None
    captured: int
    whole_steps: bool
    graphs_in_share: bool
    vision: bool
    halved: bool
    table_on_disk: bool


def flags(recipe: Recipe, shape: Shape, total: int, sparks: int) -> Flags:
    """Read the memory settings of a recipe, as it is for its number of Sparks."""
    options = recipe.options
    release = recipe.release or _NEWEST
    # EngineArgs.get_batch_defaults of 0.18.0 and 0.32.0. 0.33.0 gave 256 and 2,048 for a GB10.
    large = total >= 70 * GIB and release < (0, 33, 0)
    sequences = options.max_num_seqs or (1024 if large else 256)
    batched = options.max_num_batched_tokens or (8192 if large else 2048)
    drafter = REFERENCE.fullmatch(str(options.draft.get("model", "")))
    context = shape.positions if options.max_model_len is None else options.max_model_len
    captured = options.max_cudagraph_capture_size
    if captured is None:
        captured = min(512, batched, 2 * sequences * (1 + options.drafted))
    estimate = recipe.env.get(_ESTIMATE, "1" if release >= _GRAPHS_IN_SHARE else "0")
    return Flags(
        release=release,
        utilization=share_of(recipe),
        kv_bytes=options.kv_cache_memory_bytes,
        number_bytes=_number_bytes(options.kv_cache_dtype, shape),
        tensor_parallel=sparks,
        context=None if context == AUTO else context,
        sequences=sequences,
        batched=batched,
        drafted=options.drafted,
        mtp=options.mtp,
        drafter=drafter[1] if drafter else None,
        captured=0 if options.graphs == "none" else captured,
        whole_steps=options.graphs == "steps",
        graphs_in_share=estimate == "1",
        prefix_caching=recipe.caches_prefixes,
        vision=not options.language_model_only,
        table_on_disk=recipe.env.get("VLLM_PLE_TABLE_MEMORY") == "disk",
        halved=options.quantization in ("fp8", "fp8_per_tensor") and not shape.quantized,
    )


def share_of(recipe: Recipe) -> float:
    """Return the share of the memory that vLLM takes, 0 to 1."""
    release = recipe.release or _NEWEST
    return recipe.options.gpu_memory_utilization or (0.92 if release >= _UTILIZATION_092 else 0.9)


def _number_bytes(dtype: str, shape: Shape) -> int:
    if dtype == "auto":
        return 1 if shape.fp8_kv_cache else shape.number_bytes
    return 1 if dtype.startswith("fp8") else 2
