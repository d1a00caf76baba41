"""The layout of a KV cache, counted by hand; beside vLLM's own code: tests/recipes."""

import pytest

from sparkwright.plan.memory.kv_cache import CacheSettings, kv_cache
from sparkwright.plan.release.model_config import Shape


def shape(**changes: int) -> Shape:
    base = {"kv_heads": 1, "head_dim": 64, "positions": 4096, "hidden": 64}
    return Shape.model_validate(base | changes)


@pytest.mark.parametrize(("context", "blocks"), [(16, 1 + 2), (17, 2 + 3), (1000, 63 + 7)])
def test_a_window_may_begin_amid_a_block(context: int, blocks: int) -> None:
    """A step sees the window before its first token, and its own: 31 + 64 in blocks of 16."""
    model = shape(full_attention=2, sliding_attention=2, sliding_window=32)
    cache = kv_cache(model, CacheSettings(batched=64))
    assert (cache.block, cache.groups, cache.page, cache.pool) == (16, 2, 4096, 8192)
    assert cache.needed(context) == blocks


@pytest.mark.parametrize(
    ("full", "window", "groups", "pages"),
    # The first is vLLM's own example (v1/core/kv_cache_utils.py): gpt-oss-20b and a drafter. Below
    # one and a half times as many, padding costs less than a second group for a few layers.
    [(13, 12, 2, 13), (17, 12, 2, 17), (18, 12, 3, 12), (10, 30, 4, 10)],
)
def test_kinds_of_almost_as_many_layers_are_padded(
    full: int, window: int, groups: int, pages: int
) -> None:
    model = shape(full_attention=full, sliding_attention=window, sliding_window=32)
    cache = kv_cache(model, CacheSettings())
    assert (cache.groups, cache.pool) == (groups, pages * cache.page)
