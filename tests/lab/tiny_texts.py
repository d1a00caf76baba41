"""A tiny Qwen3 checkpoint with random weights that embeds texts, and scores documents.

It has the shape of Qwen3-Embedding and Qwen3-Reranker, at 1/2000 of the size. Its attention sees
all words alike, so that texts with the same words have vectors that are near each other.
"""

import json
from pathlib import Path

from tests.lab import cache, tiny_model, tiny_tokenizer, tiny_weights
from tests.lab.tiny_model import END, HEAD_DIM, HEADS, HIDDEN, PADDING, VOCABULARY
from tests.lab.tiny_weights import Tensors, ones, random, write_shards, zeros

INNER = 256
CONTEXT = 32_768
SHARD_SIZE = 1 << 20  # bytes, about


def ensure_models() -> Path:
    """Return the cached folder of the checkpoint `model/`, made if missing."""
    modules = (__file__, tiny_model.__file__, tiny_tokenizer.__file__, tiny_weights.__file__)
    return cache.entry("tiny-texts", [Path(module) for module in modules], write_models)


def write_models(folder: Path) -> None:
    """Write the checkpoint `model/` (about 2 MB) into a folder."""
    folder /= "model"
    folder.mkdir(parents=True)
    config = tiny_model.qwen3("Qwen3ForCausalLM", CONTEXT, INNER)
    ends = {"tie_word_embeddings": True, "eos_token_id": END, "pad_token_id": PADDING}
    content = {
        "config.json": config | ends,
        "tokenizer.json": tiny_tokenizer.tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(CONTEXT),
    }
    for name, each in content.items():
        (folder / name).write_text(json.dumps(each, indent=1) + "\n")
    write_shards(folder, _tensors(), SHARD_SIZE)


def _tensors() -> Tensors:
    layer = "model.layers.0"
    norms = (f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm", "model.norm")
    return {
        "model.embed_tokens.weight": random("texts", VOCABULARY, HIDDEN),
        **tiny_model.attention(f"{layer}.self_attn", query_parts=1),
        # A query of zeros finds all keys alike.
        f"{layer}.self_attn.q_proj.weight": zeros(HEADS * HEAD_DIM, HIDDEN),
        **{f"{layer}.self_attn.{part}_norm.weight": ones(HEAD_DIM) for part in "qk"},
        **tiny_model.mlp(f"{layer}.mlp", HIDDEN, INNER),
        **{f"{norm}.weight": ones(HIDDEN) for norm in norms},
    }
