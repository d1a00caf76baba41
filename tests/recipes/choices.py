"""The recipe to choose for a need: the one source of the tables in README.md and docs/recipes.md.

What a recipe of ours says, or its plan, is read from it. Of a recipe that others publish stands
here what was read of it on 2026-11-23, and a file of the same form with the options that matter:
the importer takes it, its `trusts` are in the table, and its vLLM judges it
(tests/recipes/test_choices.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.imports import trusts
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from tests.published import published

_SPARSE = (
    *("VLLM_TRITON_MLA_SPARSE", "VLLM_TRITON_MLA_SPARSE_HEAD_BLOCK_SIZE"),
    *("VLLM_TRITON_MLA_SPARSE_QUERY_CHUNK_SIZE", "VLLM_TRITON_MLA_SPARSE_TOPK_CHUNK_SIZE"),
    "TILELANG_CLEANUP_TEMP_FILES",
)

# Lines of README.md.
_BESIDE, _NOWHERE = "one Spark, beside a chat model", "docs/recipes.md alone"


@dataclass(frozen=True)
class Published:
    """A recipe that others publish.

    Attributes:
        source: As `sparkwright recipes import` names it.
        name: Of the recipe there.
        commit: At which it was read; the date is the commit's.
        download: Of its weights, with the source of the figure; empty: not published.
        model: The repository on the hub.
        options: Those that need trust or a certain vLLM, or decide memory.
        variables: Those that need trust.
        judge: The release of vLLM that judges it.
        fork: What only the image's own vLLM knows.
    """

    source: str
    name: str
    commit: str
    download: str
    model: str
    image: str
    options: str
    judge: str
    variables: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()

    def text(self, sparks: int) -> str:
        """Return a file of the form."""
        variables = "".join(f'  {name}: "1"\n' for name in self.variables)
        env = f"env:\n{variables}" if variables else ""
        nodes = "cluster_only: true" if sparks > 1 else "max_nodes: 1"
        return (
            f'recipe_version: "2"\nmodel: {self.model}\ncontainer: {self.image}\n{nodes}\n'
            f"defaults: {{tensor_parallel: {sparks}}}\n{env}command: |\n"
            f"  vllm serve {self.model} --tensor-parallel-size {sparks} {self.options}\n"
        )


@dataclass(frozen=True)
class Choice:
    """A line of the tables.

    Attributes:
        need: What somebody wants it for.
        take: The name of our recipe, or another's.
        figure: Tokens/s of one answer, and whose they are.
        know: What to know before.
        sparks: How many it is for.
        place: The line of README.md that has it; empty: that of its number of Sparks.
        trusts: Where the words are too many for a table.
    """

    need: str
    take: str | Published
    figure: str
    know: str = ""
    sparks: int = 1
    place: str = ""
    trusts: str = ""


CHOICES = (
    Choice("chat, agents, tools: the safe choice", "qwen3.6-35b-nvidia", "75, by sparky-cluster"),
    Choice("answers before speed", "qwen3.5-122b-nvidia", "27 with MTP, by NVIDIA"),
    Choice(
        "the fastest single answer",
        "qwen3.6-35b-nvfp4-dflash",
        "84, by AEON-7",
        'weights and image of a third party, which made the model ["heretic"](glossary.md)',
    ),
    Choice(
        "images and video, and the newest Qwen",
        "qwen3.8-27b-nvidia",
        "24, by NVIDIA",
        "a dense model: each token reads all weights",
    ),
    Choice(
        "code",
        Published(
            source="arena",
            name="experimental-recipes/eugr-vllm/qwen3-coder-next-fp8-vllm",
            commit="3075780",
            download="",
            model="Qwen/Qwen3-Coder-Next-FP8",
            image="ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest",
            options="--gpu-memory-utilization 0.7 --max-model-len 131072 --kv-cache-dtype fp8 "
            "--load-format fastsafetensors --attention-backend flashinfer "
            "--enable-prefix-caching --enable-auto-tool-choice --tool-call-parser qwen3_coder",
            judge="0.23.0",
        ),
        "?",
        "`qwen3.6-35b-nvidia` writes code as well, and needs no import",
    ),
    Choice(
        "a million tokens", "qwen3.5-35b-1m", "?", "tried by nobody that we know of beyond 300,000"
    ),
    Choice(
        "a Spark of 64 GB",
        "qwen3.8-27b-nvidia-64gb",
        "?",
        "NVIDIA's own settings for it",
    ),
    Choice(
        "vectors of texts",
        "qwen3-embedding-0.6b",
        "?",
        "[how](#embeddings-and-scores)",
        place=_BESIDE,
    ),
    Choice(
        "how well documents answer a query",
        "qwen3-reranker-0.6b",
        "?",
        "[how](#embeddings-and-scores)",
        place=_BESIDE,
    ),
    Choice(
        "experiments with 180B",
        "qwen3.8-flash-next-b12x",
        "?",
        "memory ran out on others' Sparks: [read first](#qwen38-flash-next)",
        place=_NOWHERE,
    ),
    Choice(
        "gpt-oss-120b",
        Published(
            source="arena",
            name="experimental-recipes/eugr-vllm/openai-gpt-oss-120b-vllm",
            commit="3075780",
            download="61 GB",
            model="openai/gpt-oss-120b",
            image="sparkarena/spark-vllm-docker:mxfp4",
            options="--gpu-memory-utilization 0.70 --max-num-batched-tokens 8192 "
            "--kv-cache-dtype fp8 --load-format fastsafetensors --quantization mxfp4 "
            "--attention-backend FLASHINFER --mxfp4-backend CUTLASS --mxfp4-layers moe,qkv "
            "--enable-auto-tool-choice --tool-call-parser openai "
            "--reasoning-parser openai_gptoss",
            judge="0.23.0",
            fork=("mxfp4-backend", "mxfp4-layers"),
        ),
        "?",
        "its image has a vLLM of its own, which nobody judges before the Spark does",
    ),
    Choice(
        "Gemma 4, 26B",
        Published(
            source="arena",
            name="experimental-recipes/gemma4/gemma4-26b-a4b-online-fp8-vllm",
            commit="3075780",
            download="",
            model="google/gemma-4-26B-A4B-it",
            image="ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest",
            options="--max-model-len 262144 --kv-cache-dtype fp8 --gpu-memory-utilization 0.8 "
            "--load-format fastsafetensors --enable-prefix-caching --tool-call-parser gemma4 "
            "--enable-auto-tool-choice --reasoning-parser gemma4 --async-scheduling "
            "--max-num-batched-tokens 8192 --trust-remote-code --quantization fp8",
            judge="0.23.0",
        ),
        "?",
        "Google's BF16, made FP8 as it loads",
    ),
    Choice("the same, faster", "qwen3.6-35b-nvidia", "100, by sparky-cluster", sparks=2),
    Choice(
        "answers before speed, and more context",
        "qwen3.5-122b-nvidia",
        "?",
        "tried on two by nobody that we know of",
        sparks=2,
    ),
    Choice(
        "DeepSeek-V4-Flash, 256,000 tokens",
        Published(
            source="arena",
            name="experimental-recipes/deepseek4/deepseek4-flash-fp8-mtp-vllm",
            commit="3075780",
            download="160 GB",
            model="deepseek-ai/DeepSeek-V4-Flash",
            image="scitrera/dgx-spark-vllm-jasl-ds4:20260609",
            options="--max-model-len 256000 --max-num-seqs 10 --max-num-batched-tokens 6144 "
            "--trust-remote-code --gpu-memory-utilization 0.825 --enable-auto-tool-choice "
            "--tool-call-parser deepseek_v4 --tokenizer-mode deepseek_v4 "
            "--reasoning-parser deepseek_v4 --kv-cache-dtype fp8 --load-format instanttensor "
            """--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}' """
            """--compilation-config '{"cudagraph_mode":"FULL_AND_PIECEWISE","""
            """"custom_ops":["all"]}' """
            "--enable-prefix-caching --max-cudagraph-capture-size 8",
            judge="0.23.0",
            variables=_SPARSE,
            fork=_SPARSE,
        ),
        "?",
        "its image has a vLLM of its own",
        sparks=2,
        trusts="`trust-remote-code`, and 5 variables of its vLLM",
    ),
    Choice(
        "MiniMax-M2.7, 230B",
        Published(
            source="arena",
            name="official-recipes/minimax-m2.7/minimax-m2.7-nvfp4-vllm",
            commit="3075780",
            download="138 GB",
            model="nvidia/MiniMax-M2.7-NVFP4",
            image="ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest",
            options="--trust-remote-code --gpu-memory-utilization 0.85 --max-model-len 196608 "
            "--load-format instanttensor --enable-auto-tool-choice "
            "--tool-call-parser minimax_m2 --reasoning-parser minimax_m2",
            judge="0.23.0",
        ),
        "?",
        sparks=2,
    ),
    Choice(
        "Nemotron 3 Super, 120B",
        Published(
            source="arena",
            name="experimental-recipes/eugr-vllm/nemotron-3-super-nvfp4-vllm",
            commit="3075780",
            download="",
            model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
            image="ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest",
            options="--kv-cache-dtype fp8 --moe-backend cutlass --trust-remote-code "
            "--gpu-memory-utilization 0.7 --max-model-len 262144 --max-num-seqs 10 "
            "--enable-prefix-caching --enable-auto-tool-choice --load-format fastsafetensors "
            "--tool-call-parser qwen3_coder --reasoning-parser nemotron_v3 "
            "--mamba-ssm-cache-dtype float32 --attention-backend TRITON_ATTN",
            judge="0.23.0",
        ),
        "?",
        sparks=2,
    ),
    Choice(
        "GLM-5.3-Flash, 524,288 tokens",
        Published(
            source="eugr",
            name="glm-5.3-flash-nvidia-nvfp4",
            commit="683281d",
            download="",
            model="nvidia/GLM-5.3-Flash-NVFP4",
            image="vllm-node-b12x",
            options="--decode-context-parallel-size 2 --cp-kv-cache-interleave-size 4 "
            "--mamba-cache-mode align --enable-prefix-caching --kv-cache-dtype nvfp4_ds_mla "
            "--quantization modelopt_mixed --attention-backend B12X --block-size 256 "
            "--moe-backend b12x --linear-backend b12x --load-format instanttensor "
            "--max-model-len 524288 --max-num-seqs 4 --max-num-batched-tokens 2048 "
            "--kv-cache-memory-bytes 6G --gpu-memory-utilization 0.86 "
            "--prefill-compute-share auto --reasoning-parser glm45 --tool-call-parser glm47 "
            "--enable-auto-tool-choice",
            judge="0.33.0",
            variables=("VLLM_ENABLE_ROCE_ALLREDUCE", "VLLM_B12X_MLA_CKV_GATHER"),
            fork=(
                *("attention-backend", "prefill-compute-share", "kv-cache-dtype"),
                *("VLLM_ENABLE_ROCE_ALLREDUCE", "VLLM_B12X_MLA_CKV_GATHER"),
            ),
        ),
        "34 to 48, by eugr",
        "1 GiB stays free on its author's head: for a pair that does nothing else. Its mods were "
        "not tried here",
        sparks=2,
        trusts="its five mods, and what the import prints",
    ),
    Choice(
        "experiments with 180B",
        "qwen3.8-flash-next-b12x-pair",
        "55, by SparkRing with another image",
        "[read first](#qwen38-flash-next)",
        sparks=2,
        place=_NOWHERE,
    ),
)


@cache
def recipe_of(choice: Choice) -> Recipe:
    """Return the recipe, as it is for the number of Sparks; another's as the importer reads it.

    Raises:
        PlanError: The importer refuses it.
    """
    if isinstance(choice.take, str):
        return load_recipe(choice.take).for_sparks(choice.sparks)
    with TemporaryDirectory() as folder:
        file = Path(folder, "recipe.yaml")
        file.write_text(choice.take.text(choice.sparks))
        return published(file)[0]


def tables() -> str:
    """Return the Markdown of docs/recipes.md."""
    head = ("for", "take", "download", "memory of each", "`trusts`", "tokens/s", "and know")
    return "\n\n".join(
        f"**{count}**\n\n{_table(head, (_row(each) for each in CHOICES if each.sparks == sparks))}"
        for sparks, count in ((1, "One Spark"), (2, "Two Sparks"))
    )


def short_table() -> str:
    """Return the Markdown of README.md: a line for each place."""
    places: dict[str, list[str]] = {}
    for choice in (each for each in CHOICES if each.place != _NOWHERE):
        place = choice.place or ("one Spark" if choice.sparks == 1 else "two Sparks")
        if isinstance(choice.take, str):
            taken = f"`{choice.take}` for {choice.need}"
        else:
            place, taken = f"{place}, by `sparkwright recipes import`", choice.need
        figure = choice.figure.partition(",")[0]
        places.setdefault(place, []).append(taken + (f" ({figure})" if figure != "?" else ""))
    return _table(("on", "take"), ((place, "; ".join(taken)) for place, taken in places.items()))


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))


def _row(choice: Choice) -> tuple[str, ...]:
    return (
        choice.need,
        _take(choice),
        _download(choice),
        _memory(choice),
        choice.trusts or ", ".join(f"`{word}`" for word in trusts(recipe_of(choice))) or "none",
        choice.figure,
        "; ".join(filter(None, (choice.know, _read(choice)))),
    )


def _read(choice: Choice) -> str:
    """Say what was tried of another's recipe."""
    if isinstance(choice.take, str):
        return ""
    return f"at {choice.take.commit}, by vLLM {choice.take.judge}"


def _take(choice: Choice) -> str:
    if isinstance(choice.take, str):
        return f"`{choice.take}`"
    return f"`sparkwright recipes import {choice.take.source} {choice.take.name}`"


def _download(choice: Choice) -> str:
    if not isinstance(choice.take, str):
        return choice.take.download or "?"
    load = nominal_load(recipe_of(choice), choice.sparks)
    return f"{sum(each.size for each in load.checkpoints.values()) / 1e9:.0f} GB"


def _memory(choice: Choice) -> str:
    """What the engine takes by our plan; of others' recipes, the share that they ask for."""
    recipe = recipe_of(choice)
    hardware = HARDWARE[recipe.hardware[0]]
    if not isinstance(choice.take, str):
        share = recipe.options.gpu_memory_utilization
        return f"{share * hardware.total_gib:.0f} GiB" if share else "?"
    load = nominal_load(recipe, choice.sparks)
    return f"{plan_memory(load, int(hardware.total_gib * GIB), True).engine / GIB:.0f} GiB"
