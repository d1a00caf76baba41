"""What vLLM makes of a recipe's memory settings, and the KV cache as it lays it out.

vLLM keeps one pool of pages for all layers of a model. A page of a full-attention layer holds a
block of tokens; one of a linear-attention layer holds its whole state, whatever the context. So
that all pages are alike, the block is made as long as the state is large. Layers of one kind share
groups of one size, and a block of the pool is one page for each layer of a group. Read in vLLM
0.17.0 to 0.32.0 (v1/core/kv_cache_utils.py, v1/kv_cache_interface.py, platforms/interface.py); the
tests compare it with that code.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.options import AUTO
from sparkwright.declared.recipe.recipe import LARGEST_GRAPH, Recipe
from sparkwright.declared.recipe.values import REFERENCE
from sparkwright.plan.release.model_config import Shape

# Tokens; the attention kernels take blocks of a multiple of it.
_ALIGNMENT = 16
# Above this ratio of layers, groups have the size of the smallest kind; below, of the largest.
_PADDED = 1.5
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


@dataclass(frozen=True)
class CacheSettings:
    """The settings of an engine that its KV cache depends on.

    Attributes:
        number_bytes: Bytes of a number in the cache.
        tensor_parallel: Sparks that the heads are divided among.
        drafted: Tokens that are drafted for each step; 0 = no speculative decoding.
        mtp: The model's own MTP head drafts them.
        prefix_caching: Prompts that begin alike share blocks.
        batched: Tokens of one step, at the most (max-num-batched-tokens).
    """

    number_bytes: int = 2
    tensor_parallel: int = 1
    drafted: int = 0
    mtp: bool = False
    prefix_caching: bool = True
    batched: int = 2048


@dataclass(frozen=True, kw_only=True)
class Flags(CacheSettings):
    """The memory settings of an engine: a recipe's, with vLLM's defaults for the rest.

    Attributes:
        release: Of the vLLM that stands for the image's own.
        kv_bytes: Of the KV cache, if the recipe names them; then the share does not size it.
        context: Tokens of the longest request; None = as many as fit.
        drafter: The checkpoint that drafts tokens, if it is not the model's own.
        captured: Tokens of the largest CUDA graph; 0 = none are made.
        whole_steps: Graphs hold whole steps, as the options have it.
        graphs_in_share: vLLM leaves room for the graphs within its share.
        halved: Weights become FP8 as they load.
        table_on_disk: A table of n-grams stays on the disk (local-inference-lab's vLLM).
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


def flags(recipe: Recipe, shape: Shape, total: int, tensor_parallel: int) -> Flags:
    """Read the memory settings of a recipe, as it is for its number of Sparks."""
    options = recipe.options
    release = recipe.release or _NEWEST
    # EngineArgs.get_batch_defaults of 0.18.0 and 0.32.0. 0.33.0 gave 256 and 2,048 for a GB10.
    large = total >= 70 * GIB and release < (0, 33, 0)
    sequences = options.max_num_seqs or (1024 if large else 256)
    batched = options.max_num_batched_tokens or (8192 if large else 2048)
    drafter = REFERENCE.fullmatch(str(options.draft.get("model", "")))
    context = shape.positions if options.max_model_len is None else options.max_model_len
    captured = max(recipe.capture_sizes, default=options.max_cudagraph_capture_size)
    if captured is None:
        captured = min(LARGEST_GRAPH, batched, 2 * sequences * (1 + options.drafted))
    estimate = recipe.env.get(_ESTIMATE, "1" if release >= _GRAPHS_IN_SHARE else "0")
    number_bytes = 1 if options.kv_cache_dtype.startswith("fp8") else 2
    if options.kv_cache_dtype == "auto":
        number_bytes = 1 if shape.fp8_kv_cache else shape.number_bytes
    return Flags(
        release=release,
        utilization=share_of(recipe),
        kv_bytes=options.kv_cache_memory_bytes,
        number_bytes=number_bytes,
        tensor_parallel=tensor_parallel,
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


@dataclass(frozen=True)
class _Kind:
    """Layers of one kind.

    Attributes:
        token_bytes: Bytes of a token in one of them; 0 = a state of fixed size.
        window: Tokens that are kept; 0 = all.
        heads: Number and dimension of the key-value heads; layers that differ in them are of two
            kinds, even if their tokens take as many bytes.
    """

    layers: int
    token_bytes: int
    window: int = 0
    heads: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class KvCache:
    """The layout: tokens of the model's block, bytes of a page and of a block of the pool, the
    number of groups, and bytes of the state of a linear-attention layer, without padding.
    """

    block: int
    page: int
    pool: int
    groups: int
    state: int
    _kinds: tuple[tuple[int, _Kind, int], ...]
    _settings: CacheSettings

    def blocks(self, size: int) -> int:
        """Return the number of blocks of a cache of so many bytes."""
        return max(0, size // self.pool)

    def needed(self, context: int) -> int:
        """Return the blocks that a request of so many tokens takes at the most."""
        return sum(
            groups * self._blocks(kind, block, context) for groups, kind, block in self._kinds
        )

    def size(self, context: int) -> int:
        """Return the bytes that a request of so many tokens takes at the most."""
        return self.needed(context) * self.pool

    def longest(self, size: int, limit: int) -> int:
        """Return the tokens, up to a limit, of the longest request in a cache of so many bytes."""
        return bisect_right(range(1, limit + 1), size, key=self.size)

    def _blocks(self, kind: _Kind, block: int, context: int) -> int:
        if not kind.token_bytes:
            # One state to write to, another that a later prompt may begin with, and one a draft.
            return (2 if self._settings.prefix_caching else 1) + self._settings.drafted
        if kind.window:
            return ceil(min(kind.window - 1 + self._settings.batched, context) / block) + 1
        return ceil(context / block)


def kv_cache(model: Shape, settings: CacheSettings, drafter: Shape | None = None) -> KvCache:
    """Lay out the KV cache of a model on one of its Sparks."""
    kinds = list(_attention(model, settings, model.mtp if settings.mtp else 0))
    for kind in _attention(drafter, settings, 0) if drafter else ():
        same = next((known for known in kinds if known.heads == kind.heads), None)
        if same and same.window == kind.window:
            kinds[kinds.index(same)] = replace(same, layers=same.layers + kind.layers)
        else:
            kinds.append(kind)
    state = _state(model, settings) if model.linear_attention else 0
    token = kinds[0].token_bytes
    block = _ALIGNMENT * max(1, ceil(state / (_ALIGNMENT * token)))
    page = block * max(kind.token_bytes for kind in kinds)
    blocks = [block * (page // (block * kind.token_bytes)) for kind in kinds]
    if state:
        kinds, blocks = [*kinds, _Kind(model.linear_attention, 0)], [*blocks, block]
    elif not any(kind.window for kind in kinds):
        # Nothing but full attention: one group of all layers, each with pages of its own size.
        pool = sum(kind.layers * kind.token_bytes for kind in kinds) * block
        return KvCache(block, page, pool, 1, 0, ((1, kinds[0], block),), settings)
    least, most = min(kind.layers for kind in kinds), max(kind.layers for kind in kinds)
    size = most if most < least * _PADDED else least
    groups = [ceil(kind.layers / size) for kind in kinds]
    rows = max(ceil(kind.layers / count) for kind, count in zip(kinds, groups, strict=True))
    layout = tuple(zip(groups, kinds, blocks, strict=True))
    return KvCache(block, page, page * rows, sum(groups), state, layout, settings)


def _attention(shape: Shape, settings: CacheSettings, extra: int) -> Iterator[_Kind]:
    heads = max(1, shape.kv_heads // settings.tensor_parallel), shape.head_dim
    token = 2 * heads[0] * heads[1] * settings.number_bytes
    if full := shape.full_attention + extra:
        yield _Kind(full, token, 0, heads)
    if shape.sliding_attention:
        yield _Kind(shape.sliding_attention, token, shape.sliding_window, heads)


def _state(shape: Shape, settings: CacheSettings) -> int:
    """Bytes of the state of a Gated DeltaNet layer: a matrix for each head of its values, and what
    its convolution still sees of past tokens, drafted ones included."""
    matrices = shape.linear_value_heads * shape.linear_key_dim * shape.linear_value_dim
    channels = (
        2 * shape.linear_key_heads * shape.linear_key_dim
        + shape.linear_value_heads * shape.linear_value_dim
    )
    seen = shape.linear_kernel - 1 + settings.drafted
    whole = matrices * shape.state_bytes + seen * channels * shape.number_bytes
    return whole // settings.tensor_parallel
