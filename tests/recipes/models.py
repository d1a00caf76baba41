"""The checkpoints that recipes name, without weights: config.json, and a tokenizer.

Written by hand, as vLLM's configuration reads it; no checkpoint was at hand. The shapes are the
published ones: transformers' defaults for qwen3_5_moe (35B), and what other projects repeat of the
checkpoints (122B, DFlash). The kind of quantization is the checkpoint's; which layers it leaves out
is an approximation. The tokenizer is the tiny model's: it has the tokens that parsers look up.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from tests.lab import tiny_model, tiny_tokenizer

Config = dict[str, Any]

CONTEXT = 262_144  # positions that all these models were trained for


@functools.cache
def files_of(repo: str) -> dict[str, str] | None:
    """Return the files of a checkpoint by name; None: nobody has written it down here."""
    if repo == "sparkwright/tiny-qwen3.5-moe":
        folder = tiny_model.ensure_models() / "model"
        small = [path for path in folder.iterdir() if "safetensors" not in path.name]
        return {path.name: path.read_text() for path in small}
    if repo not in _CONFIGS:
        return None
    files = {
        "config.json": _CONFIGS[repo],
        "tokenizer.json": tiny_tokenizer.tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(CONTEXT),
    }
    return {name: json.dumps(content) for name, content in files.items()}


def _qwen(text: Config, quantization: Config | None = None) -> Config:
    """Return the config of a Qwen3.5 or Qwen3.6 MoE: to vLLM, both are the same model."""
    config: Config = {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "dtype": "bfloat16",
        "image_token_id": 248_056,
        "video_token_id": 248_057,
        "vision_start_token_id": 248_053,
        "vision_end_token_id": 248_054,
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": {
            "model_type": "qwen3_5_moe",
            "depth": 27,
            "hidden_size": 1152,
            "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": 4304,
            "num_heads": 16,
            "in_channels": 3,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 2304,
            "out_hidden_size": text["hidden_size"],
            "deepstack_visual_indexes": [],
        },
    }
    return config | ({"quantization_config": quantization} if quantization else {})


def _text(layers: int, hidden: int, heads: int, expert: int, linear_values: int) -> Config:
    """Return the language model's part: every fourth layer has full attention."""
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
    return {
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "vocab_size": 248_320,
        "hidden_size": hidden,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
        },
        "num_hidden_layers": layers,
        "full_attention_interval": 4,
        "layer_types": kinds * (layers // 4),
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "attention_bias": False,
        "attn_output_gate": True,
        "linear_conv_kernel_dim": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": linear_values,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": expert,
        "shared_expert_intermediate_size": expert,
        "mtp_num_hidden_layers": 1,
    }


_35B = _text(layers=40, hidden=2048, heads=16, expert=512, linear_values=32)
_122B = _text(layers=48, hidden=3072, heads=32, expert=1024, linear_values=64)

_FP8 = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "weight_block_size": [128, 128],
    "modules_to_not_convert": ["lm_head", "model.visual"],
}
_FOUR_BITS = {
    "num_bits": 4,
    "type": "float",
    "strategy": "tensor_group",
    "group_size": 16,
    "symmetric": True,
}
# llm-compressor's NVFP4: weights and activations in 4 bits.
_COMPRESSED = {
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
    "format": "nvfp4-pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": _FOUR_BITS | {"dynamic": False},
            "input_activations": _FOUR_BITS | {"dynamic": "local"},
        }
    },
    "ignore": ["lm_head", "re:.*visual.*", "re:.*mtp.*", "re:.*mlp.gate$", "re:.*linear_attn.*"],
}
# NVIDIA's Model Optimizer: one method for all layers (122B), or one for each (35B).
_MODELOPT = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "group_size": 16,
    "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    "ignore": ["lm_head", "mtp*", "model.visual*"],
}
_MIXED = {
    "quant_method": "modelopt",
    "quant_algo": "MIXED_PRECISION",
    "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    "ignore": ["mtp*", "model.visual*"],
    "quantized_layers": {
        f"model.language_model.layers.{layer}.{part}": algorithm
        for layer, kind in enumerate(_35B["layer_types"])
        for part, algorithm in (
            ("mlp.experts", {"quant_algo": "W4A16_NVFP4", "group_size": 16}),
            (
                "self_attn.o_proj" if kind == "full_attention" else "linear_attn.out_proj",
                {"quant_algo": "FP8"},
            ),
        )
    },
}
_DFLASH = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "block_size": 16,
    "dflash_config": {"mask_token_id": 248_070, "target_layer_ids": [1, 10, 19, 28, 37]},
    "num_target_layers": 40,
    "vocab_size": 248_320,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000_000,
    "max_position_embeddings": CONTEXT,
    "num_hidden_layers": 8,
    "layer_types": ["full_attention"] * 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "attention_bias": False,
    "tie_word_embeddings": False,
}

_CONFIGS = {
    "Qwen/Qwen3.5-35B-A3B": _qwen(_35B),
    "Qwen/Qwen3.5-35B-A3B-FP8": _qwen(_35B, _FP8),
    "Qwen/Qwen3.6-35B-A3B-FP8": _qwen(_35B, _FP8),
    "ig1/Qwen3.5-35B-A3B-NVFP4": _qwen(_35B, _COMPRESSED),
    "AEON-7/Qwen3.6-35B-A3B-heretic-NVFP4": _qwen(_35B, _COMPRESSED),
    "nvidia/Qwen3.6-35B-A3B-NVFP4": _qwen(_35B, _MIXED),
    "Sehyo/Qwen3.5-122B-A10B-NVFP4": _qwen(_122B, _COMPRESSED),
    "nvidia/Qwen3.5-122B-A10B-NVFP4": _qwen(_122B, _MODELOPT),
    "z-lab/Qwen3.6-35B-A3B-DFlash": _DFLASH,
}
