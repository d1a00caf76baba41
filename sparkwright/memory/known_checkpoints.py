"""Nominal sizes and shapes of known checkpoints, for a plan without a lock."""

from __future__ import annotations

from sparkwright.memory.plan import Load, Weights
from sparkwright.recipe.recipe import Recipe
from sparkwright.release.model_config import Shape

GB = 10**9

# transformers' Qwen3_5MoeConfig, which has the published shape of 35B-A3B as its default.
_35B = Shape(
    full_attention=10,
    linear_attention=30,
    mtp=1,
    kv_heads=2,
    head_dim=256,
    linear_key_heads=16,
    linear_value_heads=32,
    linear_key_dim=128,
    linear_value_dim=128,
    linear_kernel=4,
    positions=262_144,
    hidden=2048,
    vocabulary=248_320,
    vision=27 * (4 * 1152**2 + 2 * 1152 * 4304),
    mtp_parameters=3 * 2048 * 512 * 257,
)
# From public descriptions; the MTP head comes to the 5 GB of docai.hu.
_122B = _35B.model_copy(
    update={
        "full_attention": 12,
        "linear_attention": 36,
        "linear_value_heads": 64,
        "hidden": 3072,
        "mtp_parameters": 3 * 3072 * 1024 * 257,
    }
)
_35B_QUANTIZED = _35B.model_copy(update={"quantized": True})
_122B_QUANTIZED = _122B.model_copy(update={"quantized": True})
_FP8_CACHE = {"fp8_kv_cache": True}
# z-lab's drafters: an approximation, made for the configuration checks.
_DFLASH = Shape(
    full_attention=8,
    kv_heads=4,
    head_dim=128,
    positions=262_144,
    hidden=2048,
    vocabulary=248_320,
)

NOMINAL = {
    # 72 GB by the model card of a quantization (xega-ai). Without the MTP head these are the 65.53
    # GiB that vLLM logs, and AI-Guru's "~70 GB".
    "Qwen/Qwen3.5-35B-A3B": (72 * GB, _35B),
    # AI-Guru.
    "Qwen/Qwen3.5-35B-A3B-FP8": (35 * GB, _35B_QUANTIZED),
    "Qwen/Qwen3.6-35B-A3B-FP8": (35 * GB, _35B_QUANTIZED),
    # AEON-7.
    "AEON-7/Qwen3.6-35B-A3B-heretic-NVFP4": (22 * GB, _35B_QUANTIZED),
    "z-lab/Qwen3.6-35B-A3B-DFlash": (905 * 10**6, _DFLASH),
    # Not published by ig1: fitted to its own table of the RTX 5090.
    "ig1/Qwen3.5-35B-A3B-NVFP4": (25.6 * GB, _35B_QUANTIZED),
    # "~25 GB" of NVIDIA's NVFP4 (dgx-spark-playbooks, nvfp4-quantization). It has an FP8 KV cache.
    "nvidia/Qwen3.6-35B-A3B-NVFP4": (25 * GB, _35B_QUANTIZED.model_copy(update=_FP8_CACHE)),
    # docai.hu.
    "Sehyo/Qwen3.5-122B-A10B-NVFP4": (81.5 * GB, _122B_QUANTIZED),
    # Not published: 75.6 GB of another one by the same tool (docai.hu), and 5 GB of the MTP head.
    "nvidia/Qwen3.5-122B-A10B-NVFP4": (80.6 * GB, _122B_QUANTIZED.model_copy(update=_FP8_CACHE)),
}


def nominal_load(recipe: Recipe, sparks: int) -> Load:
    """Return the load that a recipe makes, with the nominal sizes of its checkpoints.

    Args:
        recipe: As it is for this number of Sparks.
        sparks: How many serve it.
    """
    checkpoints = {}
    for name, checkpoint in recipe.checkpoints.items():
        size, shape = NOMINAL.get(checkpoint.repo, (0, None))
        checkpoints[name] = Weights(checkpoint.repo, int(size), shape)
    return Load(recipe, sparks, checkpoints)
