"""Every published memory figure, and each that real vLLM logged on an H200, beside the plan's.

python -m tests.unit.seed_memory

prints them as the plan now has them; docs/memory.md sums them up. The lines of h200/ were captured
on an H200 (139.80 GiB) with CUDA vLLM 0.26.0 and dummy weights of the real shapes, without vision;
of the 122B's 256 experts, 32.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data, nominal_load
from sparkwright.plan.memory.kv_cache import CacheSettings, kv_cache
from sparkwright.plan.memory.plan import MIB, Load, MemoryPlan, Weights, plan_memory

GB = 10**9
LOGS = Path(__file__).parent / "h200"


@dataclass(frozen=True)
class Row:
    """One figure; `fitted` if the plan's constants were chosen by it."""

    source: str
    figure: str
    theirs: float
    plan: float
    fitted: bool = False

    @property
    def off(self) -> float:
        """By which share the plan is larger."""
        return self.plan / self.theirs - 1

    def __str__(self) -> str:
        figures = f"{_shown(self.theirs)} | {_shown(self.plan)}"
        error = f"{100 * self.off:+.1f} %" + (", fit" if self.fitted else "")
        return f"| {self.source} | {self.figure} | {figures} | {error} |"


def _shown(figure: float) -> str:
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:g}" if figure % 1 == 0 else f"{figure:.2f}"


def told(
    recipe: str, vllm: str, sparks: int = 1, env: dict[str, str] | None = None, **args: object
) -> MemoryPlan:
    """Plan a recipe's checkpoints with a source's own options, and no others.

    Their vLLM chose the graphs.
    """
    options = {name.replace("_", "-"): value for name, value in args.items()}
    options["performance-mode"] = "balanced"
    base = load_recipe(recipe)
    changed = base.model_copy(update={"args": options, "env": env or {}, "judged_by": vllm})
    return plan_memory(nominal_load(changed, sparks), HARDWARE[base.hardware[0]])


def published() -> Iterator[Row]:
    """Every published figure, seed by seed."""
    yield from _seed_000()
    plan = told("qwen3.6-35b-nvfp4-dflash", "0.20.2")
    yield Row("AEON-7", "NVFP4, weights, GiB", 20.65, plan.weights / GIB)
    yield from _seed_002()
    yield from _seed_004()
    yield from _others()


_000 = {"max_num_batched_tokens": 16_384, "enable_prefix_caching": True}
_CARD = {
    "recipe": "qwen3.5-35b-nvfp4-rtx-5090",
    "vllm": "0.18.0",
    "env": {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"},
    "max_model_len": "auto",
}
_004 = {
    "max_num_seqs": 4,
    "kv_cache_dtype": "fp8",
    "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
}
_LONG = {
    "max_model_len": 131_072,
    "max_num_batched_tokens": 8192,
    "enable_prefix_caching": True,
}


def _seed_000() -> Iterator[Row]:
    bf16 = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.80, **_000)
    text = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.85, language_model_only=True)
    fp8 = told("qwen3.5-35b-fp8", "0.17.0", gpu_memory_utilization=0.90, **_000)
    # Its concurrency says that prefixes were cached, though its line does not.
    long = {"max_model_len": 1_048_576, "enable_prefix_caching": True}
    million = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.95, **long)
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


def _seed_002() -> Iterator[Row]:
    card = _CARD | {"recipe": "qwen3.5-35b-nvfp4-rtx-pro-6000"}
    pro = told(**card, gpu_memory_utilization=0.65, kv_cache_memory_bytes="20600M")
    yield Row("ig1", "20600M, tokens (1x 262,144)", 262_144, pro.tokens)
    used = (pro.engine + pro.host) / MIB
    yield Row("ig1", "RTX PRO 6000, all in use, MiB", 53_240, used)
    for share, tokens in ((0.885, 12_500), (0.905, 19_500), (0.926, 28_000), (0.956, 40_000)):
        found = _card(32, 2048, share=share).tokens
        yield Row("ig1", f"RTX 5090 at {share}, tokens", tokens, found, fitted=True)
    small, least = _beside(32, 2048), _beside(1, 2048)
    for requests, mib in ((64, 338), (128, 734), (256, 1446)):
        more = _beside(requests, 2048) - least
        yield Row("ig1", f"{requests} requests and graphs, MiB over 1", mib, more, fitted=True)
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
        **_CARD,
        max_num_seqs=requests,
        max_cudagraph_capture_size=captured or requests,
        max_num_batched_tokens=batched,
        gpu_memory_utilization=share,
    )


def _seed_004() -> Iterator[Row]:
    docai = ("qwen3.5-122b-nvfp4-mtp", "0.19.1")
    plan = told(*docai, **_004, **_LONG, gpu_memory_utilization=0.90)
    more = told(*docai, **_004, **_LONG, gpu_memory_utilization=0.92)
    default = {"max_model_len": 32_768, "max_num_batched_tokens": 4096}
    short = told(*docai, **_004, **default, gpu_memory_utilization=0.90)
    head = checkpoint_data("Sehyo/Qwen3.5-122B-A10B-NVFP4").shape.mtp_parameters
    yield Row("docai.hu", "MTP head, GB", 5, 2 * head / GB)
    yield Row("docai.hu", "weights, GiB", 76.02, plan.weights / GIB)
    yield Row("docai.hu", "0.90, KV cache, GiB", 30.33, plan.kv_bytes / GIB, fitted=True)
    yield Row("docai.hu", "0.90, tokens", 595_584, plan.tokens)
    yield Row("docai.hu", "0.90, concurrency at 131,072", 12.89, plan.concurrency)
    yield Row("docai.hu", "CUDA graphs, GiB", 0.27, plan.graphs / GIB, fitted=True)
    yield Row("docai.hu", "all in use, GiB", 117, (plan.engine + plan.host) / GIB, fitted=True)
    yield Row("docai.hu", "32K default, KV cache, GiB", 31, short.kv_bytes / GIB)
    yield Row("docai.hu", "0.92, KV cache, GiB more", 1, (more.kv_bytes - plan.kv_bytes) / GIB)


def _others() -> Iterator[Row]:
    for share, free in ((0.80, 6), (0.70, 20)):
        pair = told("qwen3.6-35b-nvidia", "0.24.0", 2, gpu_memory_utilization=share)
        figure = f"two Sparks at {share:.2f}, idle, GiB"
        yield Row("gorlak", figure, free, pair.head_room / GIB, fitted=True)
    eager = {"max_model_len": 8192, "enforce_eager": True}
    bf16 = told("qwen3.5-35b", "0.17.0", gpu_memory_utilization=0.70, **eager)
    yield Row("hukuk-ai", "BF16 at 0.70, KV cache, GiB", 15.58, bf16.kv_bytes / GIB)
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


# What was started on the H200: name, log, repository, and options.
_35B, _122B = "Qwen/Qwen3.5-35B-A3B", "Sehyo/Qwen3.5-122B-A10B-NVFP4"
_MTP = _LONG | {"speculative_config": _004["speculative_config"]}
STARTS = (
    ("35B", "35b.log", _35B, {"max_model_len": 262_144, "share": 0.85}),
    ("35B, MTP-2", "35b-mtp.log", _35B, {"max_num_seqs": 8, "share": 0.85, **_MTP}),
    ("122B, FP8 cache, MTP-2", "122b.log", _122B, {"share": 0.5, **_004, **_MTP}),
)


def logged() -> Iterator[Row]:
    """Every figure of a log, start by start. Weights of the 122B are as logged."""
    for name, file, repo, given in STARTS:
        log, known = (LOGS / file).read_text(), checkpoint_data(repo)
        weights, shape = _number(log, "Model loading took "), known.shape
        size = known.size
        if shape.quantized:
            size = int(weights * GIB)
            shape = shape.model_copy(update={"quantized": False, "vision": 0})
        args = {key.replace("_", "-"): value for key, value in given.items() if key != "share"}
        args |= {"language-model-only": True, "gpu-memory-utilization": given["share"]}
        args["performance-mode"] = "balanced"
        changed = {"args": args, "env": {}, "judged_by": "0.26.0"}
        recipe = load_recipe("qwen3.5-35b").model_copy(update=changed)
        load = Load(recipe, 1, {"model": Weights(repo, size, shape)})
        plan = plan_memory(load, replace(HARDWARE["rtx-5090"], total_gib=139.80))
        if not known.shape.quantized:
            yield Row(name, "weights, GiB", weights, plan.weights / GIB)
        peak = _number(log, "for weight, ", " GiB for peak")
        steps = peak + _number(log, "activation, ", " GiB for non-torch")
        yield Row(name, "steps, GiB", steps, plan.activations / GIB)
        for figure, words in (
            ("graphs as estimated, GiB", "CUDA graph memory: "),
            ("graphs as made, GiB", "non-torch memory, and "),
        ):
            yield Row(name, figure, _number(log, words), plan.graphs / GIB)
        cache = _number(log, "Available KV cache memory: ")
        yield Row(name, "KV cache, GiB", cache, plan.kv_bytes / GIB)
        block = _number(log, "attention block size to ")
        yield Row(name, "block, tokens", block, plan.cache.block)
        fits = plan.cache.blocks(int(cache * GIB)) / plan.cache.needed(plan.context)
        yield Row(name, f"{cache:.2f} GiB, concurrency", _number(log, "per request: ", "x"), fits)
        tokens = _number(log, "KV cache size: ")
        yield Row(name, f"{cache:.2f} GiB, tokens", tokens, int(fits * plan.context))


def _number(log: str, before: str, after: str = "") -> float:
    """Return the number that a log has between two texts."""
    (found,) = re.findall(rf"{before}([0-9][0-9,.]*[0-9]){after}", log)
    return float(found.replace(",", ""))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.unit.seed_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    print("| source | figure | theirs | plan | error |", "|---|---|---|---|---|", sep="\n")
    print(*published(), *logged(), sep="\n")
