"""The KV cache as vLLM lays it out: what a context takes of it, and how many fit.

vLLM keeps one pool of pages for all layers of a model. A page of a full-attention layer holds a
block of tokens; one of a linear-attention layer holds its whole state, whatever the context. So
that all pages are alike, the block is made as long as the state is large. Layers of one kind share
groups of one size, and a block of the pool is one page for each layer of a group. Read in vLLM
0.17.0 to 0.32.0 (v1/core/kv_cache_utils.py, v1/kv_cache_interface.py, platforms/interface.py); the
tests compare it with that code.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from sparkwright.plan.release.model_config import Shape

# Tokens; the attention kernels take blocks of a multiple of it.
_ALIGNMENT = 16
# Above this ratio of layers, groups have the size of the smallest kind; below, of the largest.
_PADDED = 1.5


@dataclass(frozen=True)
class CacheSettings:
    """The settings of an engine that its KV cache depends on.

    Attributes:
        number_bytes: Bytes of a number in the cache.
        tensor_parallel: Sparks that the heads are divided among.
        drafted: Tokens that are drafted for each step; 0 = no speculative decoding.
        mtp: Whether the model's own MTP head drafts them.
        prefix_caching: Whether prompts that begin alike share blocks.
        batched: Tokens of one step, at the most (max-num-batched-tokens).
    """

    number_bytes: int = 2
    tensor_parallel: int = 1
    drafted: int = 0
    mtp: bool = False
    prefix_caching: bool = True
    batched: int = 2048


@dataclass(frozen=True)
class _Kind:
    """Layers of one kind.

    Attributes:
        layers: How many.
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
    """The layout.

    Attributes:
        block: Tokens of the model's block.
        page: Bytes of a page.
        pool: Bytes of a block of the pool.
        groups: Number of groups.
        state: Bytes of the state of a linear-attention layer, without padding.
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
        """Blocks that a request of so many tokens takes at the most."""
        return sum(
            groups * self._blocks(kind, block, context) for groups, kind, block in self._kinds
        )

    def size(self, context: int) -> int:
        """Bytes that a request of so many tokens takes at the most."""
        return self.needed(context) * self.pool

    def longest(self, size: int, limit: int) -> int:
        """Tokens of the longest request, up to a limit, in a cache of so many bytes; 0 = none."""
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
