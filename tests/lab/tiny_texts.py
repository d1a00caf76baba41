"""A tiny Qwen3 checkpoint with random weights that embeds texts, and scores documents.

It has the shape of Qwen3-Embedding and Qwen3-Reranker, at 1/2000 of the size. Its attention sees
all words alike, so that texts with the same words have vectors that are near each other.
"""

import json
from pathlib import Path

from tests.lab import cache, tiny_tokenizer, tiny_weights
from tests.lab.tiny_weights import Tensors, linear, ones, random, write_shards, zeros

HIDDEN, INNER = 256, 256
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 128
CONTEXT = 32_768
SHARD_SIZE = 1 << 20  # bytes, about


def ensure_models() -> Path:
    """Return the cached folder of the checkpoint `model/`, made if missing."""
    modules = (__file__, tiny_tokenizer.__file__, tiny_weights.__file__)
    return cache.entry("tiny-texts", [Path(module) for module in modules], write_models)


def write_models(folder: Path) -> None:
    """Write the checkpoint `model/` (about 2 MB) into a folder."""
    folder /= "model"
    folder.mkdir(parents=True)
    content = {
        "config.json": _config(),
        "tokenizer.json": tiny_tokenizer.tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(CONTEXT),
    }
    for name, each in content.items():
        (folder / name).write_text(json.dumps(each, indent=1) + "\n")
    write_shards(folder, _tensors(), SHARD_SIZE)


def _config() -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": tiny_tokenizer.size(),
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "max_position_embeddings": CONTEXT,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "eos_token_id": tiny_tokenizer.CONTROL_TOKENS.index("<|im_end|>"),
        "pad_token_id": tiny_tokenizer.CONTROL_TOKENS.index("<|endoftext|>"),
    }


def _tensors() -> Tensors:
    layer = "model.layers.0"
    return {
        "model.embed_tokens.weight": random("texts", tiny_tokenizer.size(), HIDDEN),
        # A query of zeros finds all keys alike.
        f"{layer}.self_attn.q_proj.weight": zeros(HEADS * HEAD_DIM, HIDDEN),
        **linear(f"{layer}.self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
        **linear(f"{layer}.self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN),
        **linear(f"{layer}.self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
        **{f"{layer}.self_attn.{part}_norm.weight": ones(HEAD_DIM) for part in "qk"},
        **linear(f"{layer}.mlp.gate_proj", INNER, HIDDEN),
        **linear(f"{layer}.mlp.up_proj", INNER, HIDDEN),
        **linear(f"{layer}.mlp.down_proj", HIDDEN, INNER),
        **{
            f"{norm}.weight": ones(HIDDEN)
            for norm in (
                f"{layer}.input_layernorm",
                f"{layer}.post_attention_layernorm",
                "model.norm",
            )
        },
    }
