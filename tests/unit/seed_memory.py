"""Every published memory figure beside the plan's, which docs/memory.md sums up.

python -m tests.unit.seed_memory

prints it as the plan now has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data, nominal_load
from sparkwright.plan.memory.kv_cache import CacheSettings, kv_cache
from sparkwright.plan.memory.plan import MIB, MemoryPlan, plan_memory

GB = 10**9
HEADER = "| source | figure | theirs | plan | error |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """One figure; `fitted` if the plan's constants were chosen by it."""

    source: str
    figure: str
    theirs: float
    plan: float
    fitted: bool = False

    def __str__(self) -> str:
        error = f"{100 * (self.plan / self.theirs - 1):+.1f} %" + (", fit" if self.fitted else "")
        figures = f"{_shown(self.theirs)} | {_shown(self.plan)}"
        return f"| {self.source} | {self.figure} | {figures} | {error} |"


def told(
    recipe: str,
    vllm: str,
    sparks: int = 1,
    env: dict[str, str] | None = None,
    **args: object,
) -> MemoryPlan:
    """Plan a recipe's checkpoints with a source's own options, and no others."""
    options = {name.replace("_", "-"): value for name, value in args.items()}
    base = load_recipe(recipe)
    changed = base.model_copy(update={"args": options, "env": env or {}, "judged_by": vllm})
    hardware = HARDWARE[base.hardware[0]]
    total = int(hardware.total_gib * GIB)
    return plan_memory(nominal_load(changed, sparks), total, hardware.unified)


def rows() -> Iterator[Row]:
    """Every figure, seed by seed."""
    yield from _seed_000()
    yield from _seed_001()
    yield from _seed_002()
    yield from _seed_004()
    yield from _others()


_000 = {"max_num_batched_tokens": 16_384, "enable_prefix_caching": True}
_GRAPHS = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}
_004 = {
    "max_num_seqs": 4,
    "kv_cache_dtype": "fp8",
    "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
}


def _seed_000() -> Iterator[Row]:
    bf16 = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.80, **_000)
    text = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.85, language_model_only=True)
    fp8 = told("qwen3.5-35b-fp8", "0.17.0", gpu_memory_utilization=0.90, **_000)
    # Its concurrency says that prefixes were cached, though its line does not.
    million = told(
        "qwen3.5-35b",
        "0.17.0",
        gpu_memory_utilization=0.95,
        max_model_len=1_048_576,
        enable_prefix_caching=True,
    )
    yield Row("AI-Guru", "BF16, weights, GB", 70, bf16.weights / GB)
    yield Row("AI-Guru", "BF16 at 0.80, KV cache, GB", 28, bf16.kv_bytes / GB)
    yield Row("AI-Guru", "text only, weights, GB", 67, text.weights / GB)
    yield Row("AI-Guru", "text only at 0.85, KV cache, GB", 31, text.kv_bytes / GB)
    yield Row("AI-Guru", "1M at 0.95, KV cache, GB", 52, million.kv_bytes / GB)
    yield Row("AI-Guru", "FP8 at 0.90, KV cache, GB", 87, fp8.kv_bytes / GB)
    yield Row("adadrag", "BF16, weights, GiB", 65.53, bf16.weights / GIB)
    yield Row("adadrag", "BF16 at 0.80, KV cache, GiB", 28.6, bf16.kv_bytes / GIB)
    yield Row("adadrag", "BF16 at 0.80, tokens", 374_000, bf16.tokens)
    yield Row("adadrag", "1M at 0.95, KV cache, GiB", 44.47, million.kv_bytes / GIB)
    yield Row("adadrag", "1M at 0.95, tokens", 581_856, million.tokens)
    yield Row("adadrag", "1M at 0.95, concurrency", 2.21, million.concurrency)


def _seed_001() -> Iterator[Row]:
    plan = told("qwen3.6-35b-nvfp4-dflash", "0.20.2")
    yield Row("AEON-7", "NVFP4, weights, GiB", 20.65, plan.weights / GIB)


def _seed_002() -> Iterator[Row]:
    pro = told(
        "qwen3.5-35b-nvfp4-rtx-pro-6000",
        "0.18.0",
        env=_GRAPHS,
        max_model_len="auto",
        gpu_memory_utilization=0.65,
        kv_cache_memory_bytes="20600M",
    )
    yield Row("ig1", "20600M, tokens (1x 262,144)", 262_144, pro.tokens)
    used = (pro.engine + pro.host) / MIB
    yield Row("ig1", "RTX PRO 6000, all in use, MiB", 53_240, used)
    for share, tokens in ((0.885, 12_500), (0.905, 19_500), (0.926, 28_000), (0.956, 40_000)):
        card = _card(32, 2048, share=share)
        yield Row("ig1", f"RTX 5090 at {share}, tokens", tokens, card.tokens, fitted=True)
    small = _beside(32, 2048)
    least = _beside(1, 2048)
    for requests, mib in ((64, 338), (128, 734), (256, 1446)):
        more = _beside(requests, 2048) - least
        yield Row("ig1", f"{requests} requests and graphs, MiB over 1", mib, more, True)
    graphs = _beside(1024, 2048, 512) - small
    yield Row("ig1", "graphs and requests up to 32, saved MiB", 4400, graphs)
    steps = _beside(32, 8192) - small
    yield Row("ig1", "steps of 2,048 tokens, saved MiB", 350, steps, fitted=True)


def _beside(requests: int, batched: int, captured: int | None = None) -> float:
    """MiB that vLLM takes beside weights and KV cache on an RTX 5090."""
    plan = _card(requests, batched, captured)
    return (plan.activations + plan.graphs) / MIB


def _card(
    requests: int, batched: int, captured: int | None = None, share: float = 0.95
) -> MemoryPlan:
    return told(
        "qwen3.5-35b-nvfp4-rtx-5090",
        "0.18.0",
        env=_GRAPHS,
        max_model_len="auto",
        max_num_seqs=requests,
        max_cudagraph_capture_size=captured or requests,
        max_num_batched_tokens=batched,
        gpu_memory_utilization=share,
    )


def _seed_004() -> Iterator[Row]:
    name, long = (
        "qwen3.5-122b-nvfp4-mtp",
        {
            "max_model_len": 131_072,
            "max_num_batched_tokens": 8192,
            "enable_prefix_caching": True,
        },
    )
    plan = told(name, "0.19.1", gpu_memory_utilization=0.90, **_004, **long)
    more = told(name, "0.19.1", gpu_memory_utilization=0.92, **_004, **long)
    default = told(
        name,
        "0.19.1",
        gpu_memory_utilization=0.90,
        max_model_len=32_768,
        max_num_batched_tokens=4096,
        **_004,
    )
    head = checkpoint_data("Sehyo/Qwen3.5-122B-A10B-NVFP4").shape.mtp_parameters
    yield Row("docai.hu", "MTP head, GB", 5, 2 * head / GB)
    yield Row("docai.hu", "weights, GiB", 76.02, plan.weights / GIB)
    yield Row("docai.hu", "0.90, KV cache, GiB", 30.33, plan.kv_bytes / GIB, fitted=True)
    yield Row("docai.hu", "0.90, tokens", 595_584, plan.tokens)
    yield Row("docai.hu", "0.90, concurrency at 131,072", 12.89, plan.concurrency)
    yield Row("docai.hu", "CUDA graphs, GiB", 0.27, plan.graphs / GIB, fitted=True)
    yield Row("docai.hu", "all in use, GiB", 117, (plan.engine + plan.host) / GIB, fitted=True)
    yield Row("docai.hu", "32K default, KV cache, GiB", 31, default.kv_bytes / GIB)
    yield Row("docai.hu", "0.92, KV cache, GiB more", 1, (more.kv_bytes - plan.kv_bytes) / GIB)


def _others() -> Iterator[Row]:
    for share, free in ((0.80, 6), (0.70, 20)):
        pair = told("qwen3.6-35b-nvidia", "0.24.0", 2, gpu_memory_utilization=share)
        yield Row(
            "gorlak", f"two Sparks at {share:.2f}, idle, GiB", free, pair.head_room / GIB, True
        )
    eager = told(
        "qwen3.5-35b",
        "0.17.0",
        gpu_memory_utilization=0.70,
        max_model_len=8192,
        enforce_eager=True,
    )
    yield Row("hukuk-ai", "BF16 at 0.70, KV cache, GiB", 15.58, eager.kv_bytes / GIB)
    small = checkpoint_data("Qwen/Qwen3.5-35B-A3B").shape
    million, fp8 = kv_cache(small, CacheSettings()), kv_cache(small, CacheSettings(number_bytes=1))
    drafted = kv_cache(small, CacheSettings(number_bytes=1, drafted=2, mtp=True))
    for source, size, tokens in (("adadrag", 44.47, 581_856), ("hukuk-ai", 15.58, 203_808)):
        blocks = million.blocks(int(size * GIB)) // million.groups
        yield Row(source, f"{size} GiB, tokens", tokens, blocks * million.block)
    for size, tokens in ((6.01, 569_878), (5.98, 567_978)):
        fits = fp8.blocks(int(size * GIB)) / fp8.needed(131_072)
        yield Row("club-3090", f"{size} GiB, tokens", tokens, int(fits * 131_072))
    blocks = drafted.blocks(int(52.66 * GIB))
    yield Row("eugr 200", "52.66 GiB, tokens", 1_253_392, blocks // drafted.groups * drafted.block)


def _shown(figure: float) -> str:
    return (
        f"{figure:,.0f}" if figure >= 100 else f"{figure:g}" if figure % 1 == 0 else f"{figure:.2f}"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.unit.seed_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    print(HEADER, *rows(), sep="\n")
