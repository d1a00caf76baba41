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
from sparkwright.memory.known_checkpoints import nominal_load
from sparkwright.memory.plan import plan_memory
from sparkwright.recipe.imports import trusts
from sparkwright.recipe.loader import load_published, load_recipe
from sparkwright.recipe.published.draft import Origin
from sparkwright.recipe.recipe import Recipe

_B12X = (
    *("B12X_MLA_SM120_UNIFIED", "B12X_MOE_FORCE_A8", "VLLM_ENABLE_ROCE_ALLREDUCE"),
    *("VLLM_MEMORY_PROFILE_INCLUDE_ATTN", "VLLM_USE_B12X_FP8_GEMM", "VLLM_USE_B12X_MHC"),
    *("VLLM_USE_B12X_MOE", "VLLM_USE_B12X_SPARSE_INDEXER", "VLLM_USE_B12X_WO_PROJECTION"),
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
        form: `nvidia` or `sparkrun`.
        model: The repository on the hub.
        image, version: The image, and the vLLM that the recipe says; empty: none.
        options: Those that need trust or a certain vLLM, or decide memory.
        variables: Those that need trust.
        judge: The release of vLLM that judges it.
        fork: What only the image's own vLLM knows.
    """

    source: str
    name: str
    commit: str
    download: str
    form: str
    model: str
    image: str
    options: str
    judge: str
    version: str = ""
    variables: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()

    def text(self, sparks: int) -> str:
        """Return a file of the form."""
        exports = "".join(f'    export {name}="1"\n' for name in self.variables)
        line = f"vllm serve {self.model} --tensor-parallel-size {sparks} {self.options}"
        if self.form == "sparkrun":
            variables = "".join(f'  {name}: "1"\n' for name in self.variables)
            env = f"env:\n{variables}" if variables else ""
            head = f"model: {self.model}\ncontainer: {self.image}\n"
            nodes = "cluster_only: true" if sparks > 1 else "max_nodes: 1"
            defaults = f"defaults: {{tensor_parallel: {sparks}}}\n"
            return f'recipe_version: "2"\n{head}{nodes}\n{defaults}{env}command: |\n  {line}\n'
        hardware = "dgx-spark" if sparks == 1 else "dgx-spark-2gpu"
        version = f"backend_version: {self.version}\n" if self.version else ""
        return (
            f"schema_version: 3\nmodel: {self.name}\nhardware: {hardware}\n"
            f"platform: {{os: linux, execution: container}}\nbackend: vllm\n{version}"
            f"checkpoint: {{target: https://huggingface.co/{self.model}}}\n"
            f"runtime:\n  kind: container\n  image: {self.image}\n  setup_command: |\n"
            f"    docker run --rm -it --gpus all {self.image}\n"
            f"serve:\n  command: |\n{exports}    {line}\n"
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
            form="sparkrun",
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
            form="sparkrun",
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
        "Nemotron 3 Super, 120B",
        Published(
            source="nvidia",
            name="nvidia/nemotron-3-super-120b-a12b/dgx-spark/vllm",
            commit="12b25c6",
            download="",
            form="nvidia",
            model="nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
            image="vllm/vllm-openai:v0.24.0-ubuntu2404",
            options="--max-model-len 262144 --gpu-memory-utilization 0.8 --max-num-seqs 8 "
            "--max-num-batched-tokens 16384 --load-format fastsafetensors "
            "--attention-backend flashinfer --kv-cache-dtype fp8 --mamba-cache-mode align "
            "--enable-prefix-caching "
            """--speculative-config '{"method":"mtp","num_speculative_tokens":3}' """
            "--reasoning-parser nemotron_v3 --enable-auto-tool-choice "
            "--tool-call-parser qwen3_xml",
            judge="0.24.0",
            version='"0.24.0"',
        ),
        "22, by NVIDIA",
    ),
    Choice(
        "Gemma 4, 26B",
        Published(
            source="nvidia",
            name="google/gemma-4-26b-a4b/dgx-spark/vllm",
            commit="12b25c6",
            download="",
            form="nvidia",
            model="nvidia/Gemma-4-26B-A4B-NVFP4",
            image="eugr/spark-vllm:nightly-20260704",
            options="--max-model-len 262144 --gpu-memory-utilization 0.8 --max-num-seqs 8 "
            "--max-num-batched-tokens 8192 --load-format instanttensor --enable-prefix-caching "
            "--enable-auto-tool-choice --tool-call-parser gemma4 --reasoning-parser gemma4",
            judge="0.23.0",
            version='"0.23.1rc1.dev790+g85d955ed5.d20260705"',
        ),
        "34, by NVIDIA",
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
        "DeepSeek-V4-Flash, 500,000 tokens",
        Published(
            source="nvidia",
            name="deepseek/deepseek-v4-flash/dgx-spark-2gpu/vllm",
            commit="12b25c6",
            download="160 GB",
            form="nvidia",
            model="deepseek-ai/DeepSeek-V4-Flash",
            image="eugr/spark-vllm:latest",
            options="--trust-remote-code --kv-cache-dtype fp8 --block-size 256 "
            "--max-model-len 500000 --max-num-seqs 4 --max-num-batched-tokens 8192 "
            "--gpu-memory-utilization 0.85 --enable-prefix-caching "
            """--speculative-config '{"method":"mtp","num_speculative_tokens":2}' """
            "--tokenizer-mode deepseek_v4 --tool-call-parser deepseek_v4 "
            "--enable-auto-tool-choice --reasoning-parser deepseek_v4 "
            "--load-format instanttensor",
            judge="0.28.0",
            version='"0.28.1rc1.dev345+g4cc0cb6f7.d20260903"',
        ),
        "36, by NVIDIA",
        sparks=2,
    ),
    Choice(
        "DeepSeek-V4-Flash-Vision-Exp: images",
        Published(
            source="nvidia",
            name="deepseek/deepseek-v4-flash-vision-exp/dgx-spark-2gpu/vllm/fp4-fp8-mixed",
            commit="dedcf6b",
            download="",
            form="nvidia",
            model="deepseek-ai/DeepSeek-V4-Flash-Vision-Exp",
            image="eugr/spark-vllm-b12x:latest",
            options="--trust-remote-code --kv-cache-dtype fp8 --block-size 256 "
            "--max-model-len auto --max-num-seqs 8 --max-num-batched-tokens 8192 "
            "--gpu-memory-utilization 0.85 --enable-prefix-caching --tokenizer-mode deepseek_v4 "
            "--tool-call-parser deepseek_v4 --enable-auto-tool-choice "
            "--reasoning-parser deepseek_v4 --load-format b12x --moe-backend b12x "
            "--linear-backend b12x --attention-backend B12X --max-cudagraph-capture-size 48",
            judge="0.33.0",
            variables=(*_B12X, "VLLM_ROCE_ALLREDUCE_MAX_SIZE"),
            fork=("load-format", "attention-backend", "VLLM_ROCE_ALLREDUCE_MAX_SIZE", *_B12X),
        ),
        "36 to 66, by eugr with a line like it",
        "NVIDIA calls it experimental",
        sparks=2,
        trusts="`trust-remote-code`, `load-format`, and 10 variables of its vLLM",
    ),
    Choice(
        "MiniMax-M2.7, 230B",
        Published(
            source="nvidia",
            name="minimax/minimax-m2.7/dgx-spark-2gpu/vllm/nvfp4",
            commit="12b25c6",
            download="138 GB",
            form="nvidia",
            model="nvidia/MiniMax-M2.7-NVFP4",
            image="eugr/spark-vllm:latest",
            options="--trust-remote-code --gpu-memory-utilization 0.85 --kv-cache-dtype fp8 "
            "--max-model-len 196608 --load-format instanttensor --enable-auto-tool-choice "
            "--tool-call-parser minimax_m2 --reasoning-parser minimax_m2",
            judge="0.27.1",
            version='"0.26.1rc1.dev1231+g7a9993878.d20260826"',
        ),
        "26, by NVIDIA",
        sparks=2,
    ),
    Choice(
        "GLM-5.3-Flash, 524,288 tokens",
        Published(
            source="eugr",
            name="glm-5.3-flash-nvidia-nvfp4",
            commit="683281d",
            download="",
            form="sparkrun",
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
        return load_published(file, "", Origin(file))


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
    rest = ", but for what only its image has" if choice.take.fork else ""
    return f"read at {choice.take.commit}; vLLM {choice.take.judge} takes the line{rest}"


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
