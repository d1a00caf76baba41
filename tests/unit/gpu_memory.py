"""Real vLLM on another GPU beside the plan, which docs/memory.md sums up.

python -m tests.unit.gpu_memory

prints it as the plan now has it. The lines of h200/ were captured on an H200 (139.80 GiB) with CUDA
vLLM 0.26.0 and dummy weights of the real shapes, without vision; of the 122B's 256 experts, 32.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.memory.plan import Load, MemoryPlan, Weights, plan_memory
from tests.unit.seed_memory import HEADER, Row

LOGS = Path(__file__).parent / "h200"

_MTP = {
    "max-model-len": 131_072,
    "max-num-batched-tokens": 8192,
    "enable-prefix-caching": True,
    "speculative-config": {"method": "mtp", "num_speculative_tokens": 2},
}


@dataclass(frozen=True)
class Start:
    """One start: what was asked for, and what vLLM logged of memory (GiB)."""

    name: str
    file: str
    repo: str
    args: Mapping[str, Any]

    def number(self, before: str, after: str = "") -> float:
        """The number that the log has between two texts."""
        log = (LOGS / self.file).read_text()
        found = re.findall(rf"{before}([0-9][0-9,.]*[0-9]){after}", log)
        assert len(found) == 1, (before, found)
        return float(found[0].replace(",", ""))

    @property
    def weights(self) -> float:
        return self.number("Model loading took ")

    @property
    def steps(self) -> float:
        """Peak of a step, and what is not PyTorch's."""
        peak = self.number("for weight, ", " GiB for peak")
        return peak + self.number("activation, ", " GiB for non-torch")

    @property
    def cache(self) -> float:
        return self.number("Available KV cache memory: ")

    def plan(self) -> MemoryPlan:
        """The plan of it, in the memory of an H200. Weights of the 122B are as logged."""
        known = checkpoint_data(self.repo)
        size, shape = known.size, known.shape
        if shape.quantized:
            size = self.weights * GIB
            shape = shape.model_copy(update={"quantized": False, "vision": 0})
        recipe = load_recipe("qwen3.5-35b").model_copy(
            update={
                "args": {"language-model-only": True, **self.args},
                "env": {},
                "judged_by": "0.26.0",
            }
        )
        load = Load(recipe, 1, {"model": Weights(self.repo, int(size), shape)})
        return plan_memory(load, int(139.80 * GIB), unified=False)


STARTS = (
    Start(
        "35B",
        "35b.log",
        "Qwen/Qwen3.5-35B-A3B",
        {"max-model-len": 262_144, "gpu-memory-utilization": 0.85},
    ),
    Start(
        "35B, MTP-2",
        "35b-mtp.log",
        "Qwen/Qwen3.5-35B-A3B",
        {"max-num-seqs": 8, "gpu-memory-utilization": 0.85, **_MTP},
    ),
    Start(
        "122B, FP8 cache, MTP-2",
        "122b.log",
        "Sehyo/Qwen3.5-122B-A10B-NVFP4",
        {"max-num-seqs": 4, "gpu-memory-utilization": 0.5, "kv-cache-dtype": "fp8", **_MTP},
    ),
)


def rows() -> Iterator[Row]:
    """Every figure, start by start."""
    for start in STARTS:
        plan, name = start.plan(), start.name
        if not checkpoint_data(start.repo).shape.quantized:
            yield Row(name, "weights, GiB", start.weights, plan.weights / GIB)
        yield Row(name, "steps, GiB", start.steps, plan.activations / GIB)
        estimated = start.number("CUDA graph memory: ")
        actual = start.number("non-torch memory, and ")
        yield Row(name, "graphs as estimated, GiB", estimated, plan.graphs / GIB)
        yield Row(name, "graphs as made, GiB", actual, plan.graphs / GIB)
        yield Row(name, "KV cache, GiB", start.cache, plan.kv_bytes / GIB)
        block = start.number("attention block size to ")
        yield Row(name, "block, tokens", block, plan.cache.block)
        fits = plan.cache.blocks(int(start.cache * GIB)) / plan.cache.needed(plan.context)
        logged = start.number("per request: ", "x")
        yield Row(name, f"{start.cache:.2f} GiB, concurrency", logged, fits)
        tokens = start.number("KV cache size: ")
        yield Row(name, f"{start.cache:.2f} GiB, tokens", tokens, int(fits * plan.context))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.unit.gpu_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    print(HEADER, *rows(), sep="\n")
