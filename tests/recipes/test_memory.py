"""The plan's KV cache against vLLM's own arithmetic, release by release."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.vllm_names import number
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.memory.kv_cache import CacheSettings, kv_cache
from tests.recipes.environment import run_script

SCRIPT = Path(__file__).with_name("kv_layout.py")
PAIR = {"tensor_parallel_size": 2, "nnodes": 2, "node_rank": 0, "master_addr": "10.0.0.1"}
COMMON = {"max_model_len": 131_072, "max_num_seqs": 16, "enable_prefix_caching": True}

FP8 = {"kv_cache_dtype": "fp8"}


def drafting(method: str, tokens: int) -> dict[str, object]:
    config: dict[str, object] = {"method": method, "num_speculative_tokens": tokens}
    more = {"model": "/models/drafter"} if method == "dflash" else {}
    return {"speculative_config": config | more}


SMALL, LARGE = "Qwen/Qwen3.5-35B-A3B", "Sehyo/Qwen3.5-122B-A10B-NVFP4"
MTP = CacheSettings(number_bytes=1, drafted=2, mtp=True)
# A model, vLLM's arguments, GiB of the cache, and how the plan is to see it.
CASES: dict[str, tuple[str, dict[str, object], int, CacheSettings]] = {
    "35B in BF16": (SMALL, {}, 28, CacheSettings()),
    "35B, FP8 cache": (SMALL, FP8, 6, CacheSettings(number_bytes=1)),
    "35B without prefix caching": (
        SMALL,
        {"enable_prefix_caching": False},
        20,
        CacheSettings(prefix_caching=False),
    ),
    "122B with MTP": (LARGE, FP8 | drafting("mtp", 2), 30, MTP),
    "122B with MTP on two Sparks": (
        LARGE,
        FP8 | drafting("mtp", 2) | PAIR,
        40,
        replace(MTP, tensor_parallel=2),
    ),
    "35B with DFlash": (
        "AEON-7/Qwen3.6-35B-A3B-heretic-NVFP4",
        drafting("dflash", 15),
        70,
        CacheSettings(drafted=15),
    ),
    "27B with DFlash2, FP8 cache": (
        "nvidia/Qwen3.8-27B-NVFP4",
        FP8 | {"max_num_batched_tokens": 16_384} | drafting("dflash", 8),
        67,
        CacheSettings(number_bytes=1, drafted=8, batched=16_384),
    ),
}
# By what a case's name says: the drafter, and the first release that runs it.
DRAFTERS = {
    "DFlash2": ("z-lab/Qwen3.8-27B-DFlash2", (0, 28)),
    "DFlash": ("z-lab/Qwen3.6-35B-A3B-DFlash", (0, 20)),
}


# One for each way in which the releases that recipes name lay it out. 0.19.0 stands for 0.18.0,
# whose files (v1/core/kv_cache_utils.py, v1/kv_cache_interface.py) differ only in hashes of images
# and in how `max-model-len: auto` is found, and for 0.19.1, whose files are the same.
@pytest.mark.parametrize("version", ["0.19.0", "0.20.2", "0.28.0", "0.32.0"])
def test_vllm_lays_out_the_same(version: str):
    names = [name for name in CASES if number(version) >= _drafter(name)[1]]
    cases = [
        {
            "configs": {
                "model": checkpoint_data(repo).config,
                "drafter": checkpoint_data(_drafter(name)[0] or DRAFTERS["DFlash"][0]).config,
            },
            "args": COMMON | args,
            "memory": memory * GIB,
        }
        for name in names
        for repo, args, memory, _ in [CASES[name]]
    ]
    found = json.loads(run_script(version, SCRIPT, text=json.dumps(cases)))
    for name, layout in zip(names, found, strict=True):
        assert {name: _planned(name)} == {name: layout}


def _drafter(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the drafter of a case, and the first release that runs it; none: any release."""
    found = (drafter for word, drafter in DRAFTERS.items() if word in name)
    return next(found, ("", ()))


def _planned(name: str) -> dict[str, float]:
    repo, _, memory, use = CASES[name]
    drafter, _ = _drafter(name)
    drafts = checkpoint_data(drafter).shape if drafter else None
    cache = kv_cache(checkpoint_data(repo).shape, use, drafts)
    return {
        "block": cache.block,
        "blocks": cache.blocks(memory * GIB),
        "groups": cache.groups,
        "concurrency": cache.blocks(memory * GIB) / cache.needed(131_072),
        "context": 131_072,
    }
