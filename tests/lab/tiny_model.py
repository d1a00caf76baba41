"""A tiny Qwen3.5-MoE checkpoint and a DFlash drafter for it, with random weights.

They have what the real checkpoints have (tokenizer, chat template, MTP head, vision tower, several
weight files), so the real engine loads them, at 1/2500 of the size. Only the standard library makes
them, and the same source makes the same bytes everywhere.
"""

import json
import shutil
from pathlib import Path

from tests.lab import cache, tiny_tokenizer, tiny_weights
from tests.lab.tiny_weights import (
    Tensor,
    Tensors,
    linear,
    ones,
    random,
    write_safetensors,
    write_shards,
    zeros,
)

HIDDEN = 256
# Three layers of linear attention, then one of full attention, as in each block of the real model.
LAYERS = 4
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 128
LINEAR_KEY_HEADS, LINEAR_VALUE_HEADS, LINEAR_HEAD_DIM = 4, 8, 128  # the CPU kernels refuse 32
EXPERTS, EXPERTS_PER_TOKEN, EXPERT_SIZE = 16, 2, 128
VISION_HIDDEN, VISION_DEPTH, VISION_PATCH, VISION_POSITIONS = 64, 2, 16, 256
DRAFT_SIZE, DRAFT_TARGET_LAYERS = 256, [0, 2]
CONTEXT = 262_144
TOOL_PARSER = Path(__file__).with_name("scripted_tools.py")
SHARD_SIZE = 8 << 20  # bytes, about: a fault in the middle of a file should hit a file of some size

VOCABULARY = tiny_tokenizer.size()
PADDING = tiny_tokenizer.CONTROL_TOKENS.index("<|endoftext|>")
END = tiny_tokenizer.CONTROL_TOKENS.index("<|im_end|>")


def ensure_models() -> Path:
    """Return the cached folder of the checkpoints `model/` and `dflash/`, made if missing."""
    modules = (__file__, tiny_tokenizer.__file__, tiny_weights.__file__, TOOL_PARSER)
    return cache.entry("tiny-models", [Path(module) for module in modules], write_models)


def write_models(folder: Path) -> None:
    """Write the checkpoints `model/` (about 26 MB) and `dflash/` (about 2 MB) into a folder."""
    model, dflash = folder / "model", folder / "dflash"
    for checkpoint, config in ((model, _model_config()), (dflash, _dflash_config())):
        checkpoint.mkdir(parents=True)
        _write_json(checkpoint / "config.json", config)
        _write_json(checkpoint / "tokenizer.json", tiny_tokenizer.tokenizer())
        _write_json(checkpoint / "tokenizer_config.json", tiny_tokenizer.config(CONTEXT))
    _write_json(model / "generation_config.json", {"eos_token_id": END, "pad_token_id": PADDING})
    (model / "chat_template.jinja").write_text(tiny_tokenizer.CHAT_TEMPLATE)
    shutil.copy(TOOL_PARSER, model)
    _write_json(model / "preprocessor_config.json", _image_config())
    write_shards(model, _model_tensors(), SHARD_SIZE)
    write_safetensors(dflash / "model.safetensors", _dflash_tensors())


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def _model_config() -> dict[str, object]:
    linear, full = ["linear_attention"] * (LAYERS - 1), ["full_attention"]
    text = {
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "max_position_embeddings": CONTEXT,
        "num_hidden_layers": LAYERS,
        "layer_types": linear + full,
        "full_attention_interval": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "attention_bias": False,
        "attn_output_gate": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [6, 5, 5],
        },
        "linear_num_key_heads": LINEAR_KEY_HEADS,
        "linear_num_value_heads": LINEAR_VALUE_HEADS,
        "linear_key_head_dim": LINEAR_HEAD_DIM,
        "linear_value_head_dim": LINEAR_HEAD_DIM,
        "linear_conv_kernel_dim": 4,
        "mamba_ssm_dtype": "float32",
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_SIZE,
        "shared_expert_intermediate_size": EXPERT_SIZE,
        "mtp_num_hidden_layers": 1,
        "eos_token_id": END,
        "pad_token_id": PADDING,
    }
    vision = {
        "model_type": "qwen3_5_moe_vision",
        "depth": VISION_DEPTH,
        "hidden_size": VISION_HIDDEN,
        "intermediate_size": 2 * VISION_HIDDEN,
        "num_heads": 4,
        "num_position_embeddings": VISION_POSITIONS,
        "out_hidden_size": HIDDEN,
        "patch_size": VISION_PATCH,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "deepstack_visual_indexes": [],
    }
    token = tiny_tokenizer.CONTROL_TOKENS.index
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        "vision_start_token_id": token("<|vision_start|>"),
        "vision_end_token_id": token("<|vision_end|>"),
        "image_token_id": token("<|image_pad|>"),
        "video_token_id": token("<|video_pad|>"),
        "text_config": text,
        "vision_config": vision,
    }


def _dflash_config() -> dict[str, object]:
    mask = tiny_tokenizer.CONTROL_TOKENS.index("<|vision_pad|>")
    return {
        **qwen3("DFlashDraftModel", CONTEXT, DRAFT_SIZE),
        "block_size": 8,
        "dflash_config": {"mask_token_id": mask, "target_layer_ids": DRAFT_TARGET_LAYERS},
        "num_target_layers": LAYERS,
        "layer_types": ["full_attention"],
        "tie_word_embeddings": False,
    }


def qwen3(architecture: str, context: int, size: int) -> dict[str, object]:
    """Return the configuration of a model of one layer, of this inner size."""
    return {
        "architectures": [architecture],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": size,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000_000,
        "max_position_embeddings": context,
        "num_hidden_layers": 1,  # more than the target's one layer of full attention is refused
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "attention_bias": False,
    }


def _image_config() -> dict[str, object]:
    return {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
        "patch_size": VISION_PATCH,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": 65_536, "longest_edge": 16_777_216},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def mlp(name: str, hidden: int, size: int) -> Tensors:
    """Return the tensors of an MLP."""
    return (
        linear(f"{name}.gate_proj", size, hidden)
        | linear(f"{name}.up_proj", size, hidden)
        | linear(f"{name}.down_proj", hidden, size)
    )


def _experts(name: str) -> Tensors:
    tensors = linear(f"{name}.gate", EXPERTS, HIDDEN)
    for expert in range(EXPERTS):
        tensors |= mlp(f"{name}.experts.{expert}", HIDDEN, EXPERT_SIZE)
    tensors |= mlp(f"{name}.shared_expert", HIDDEN, EXPERT_SIZE)
    return tensors | linear(f"{name}.shared_expert_gate", 1, HIDDEN)


def attention(name: str, query_parts: int) -> Tensors:
    """Return attention tensors; query_parts is 2 where the query projection also makes a gate."""
    return (
        linear(f"{name}.q_proj", query_parts * HEADS * HEAD_DIM, HIDDEN)
        | linear(f"{name}.k_proj", KV_HEADS * HEAD_DIM, HIDDEN)
        | linear(f"{name}.v_proj", KV_HEADS * HEAD_DIM, HIDDEN)
        | linear(f"{name}.o_proj", HIDDEN, HEADS * HEAD_DIM)
    )


def _linear_attention(name: str) -> Tensors:
    keys, values = LINEAR_KEY_HEADS * LINEAR_HEAD_DIM, LINEAR_VALUE_HEADS * LINEAR_HEAD_DIM
    return (
        linear(f"{name}.in_proj_qkv", 2 * keys + values, HIDDEN)
        | linear(f"{name}.in_proj_z", values, HIDDEN)
        | linear(f"{name}.in_proj_a", LINEAR_VALUE_HEADS, HIDDEN)
        | linear(f"{name}.in_proj_b", LINEAR_VALUE_HEADS, HIDDEN)
        | linear(f"{name}.out_proj", HIDDEN, values)
        | {
            f"{name}.A_log": random(f"{name}.A_log", LINEAR_VALUE_HEADS),
            f"{name}.conv1d.weight": random(f"{name}.conv1d", 2 * keys + values, 1, 4),
            f"{name}.dt_bias": ones(LINEAR_VALUE_HEADS),
            f"{name}.norm.weight": ones(LINEAR_HEAD_DIM),
        }
    )


def _layer(name: str, full_attention: bool) -> Tensors:
    # The model adds one to its norm weights, except in linear attention: zero is neutral.
    norms: Tensors = {
        f"{name}.input_layernorm.weight": zeros(HIDDEN),
        f"{name}.post_attention_layernorm.weight": zeros(HIDDEN),
    }
    if full_attention:
        own = attention(f"{name}.self_attn", query_parts=2)
        norms |= {f"{name}.self_attn.{part}_norm.weight": zeros(HEAD_DIM) for part in "qk"}
    else:
        own = _linear_attention(f"{name}.linear_attn")
    return norms | own | _experts(f"{name}.mlp")


def _head() -> Tensor:
    """Return the output layer, which knows only words.

    So a completion is plain text to its last byte, says something in every token, and goes on
    until it has all the tokens that the request allows.
    """
    shape, content = random("lm_head", VOCABULARY, HIDDEN)
    row, words = 2 * HIDDEN, tiny_tokenizer.words()
    said = content[words.start * row : words.stop * row]
    return shape, bytes(words.start * row) + said + bytes((VOCABULARY - words.stop) * row)


def _vision() -> Tensors:
    def norm(name: str) -> Tensors:
        return {f"{name}.weight": ones(VISION_HIDDEN), f"{name}.bias": zeros(VISION_HIDDEN)}

    size, merged = VISION_HIDDEN, 4 * VISION_HIDDEN
    patch = random("visual.patch", size, 3, 2, VISION_PATCH, VISION_PATCH)
    tensors: Tensors = {
        "model.visual.patch_embed.proj.weight": patch,
        "model.visual.patch_embed.proj.bias": zeros(size),
        "model.visual.pos_embed.weight": random("visual.positions", VISION_POSITIONS, size),
    }
    for depth in range(VISION_DEPTH):
        block = f"model.visual.blocks.{depth}"
        tensors |= norm(f"{block}.norm1") | norm(f"{block}.norm2")
        tensors |= linear(f"{block}.attn.qkv", 3 * size, size, bias=True)
        tensors |= linear(f"{block}.attn.proj", size, size, bias=True)
        tensors |= linear(f"{block}.mlp.linear_fc1", 2 * size, size, bias=True)
        tensors |= linear(f"{block}.mlp.linear_fc2", size, 2 * size, bias=True)
    tensors |= norm("model.visual.merger.norm")
    tensors |= linear("model.visual.merger.linear_fc1", merged, merged, bias=True)
    return tensors | linear("model.visual.merger.linear_fc2", HIDDEN, merged, bias=True)


def _model_tensors() -> Tensors:
    tensors = linear("model.language_model.embed_tokens", VOCABULARY, HIDDEN)
    for index in range(LAYERS):
        tensors |= _layer(f"model.language_model.layers.{index}", index == LAYERS - 1)
    tensors["model.language_model.norm.weight"] = zeros(HIDDEN)
    tensors["lm_head.weight"] = _head()
    tensors |= _vision()
    tensors |= linear("mtp.fc", HIDDEN, 2 * HIDDEN) | _layer("mtp.layers.0", full_attention=True)
    for norm in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        tensors[f"mtp.{norm}.weight"] = zeros(HIDDEN)
    return tensors


def _dflash_tensors() -> Tensors:
    tensors = linear("fc", HIDDEN, HIDDEN * len(DRAFT_TARGET_LAYERS))
    tensors |= attention("layers.0.self_attn", query_parts=1)
    tensors |= {f"layers.0.self_attn.{part}_norm.weight": ones(HEAD_DIM) for part in "qk"}
    tensors |= mlp("layers.0.mlp", HIDDEN, DRAFT_SIZE)
    norms = ["hidden_norm", "norm", "layers.0.input_layernorm", "layers.0.post_attention_layernorm"]
    return tensors | {f"{norm}.weight": ones(HIDDEN) for norm in norms}
