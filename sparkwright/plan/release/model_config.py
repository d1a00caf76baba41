"""The shape of a model: the part of a checkpoint's config.json that decides its memory."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sparkwright.common.schema import Model

# Transformers with layers of full, sliding-window or linear attention (Gated DeltaNet) only, which
# the memory plan can count. Other models have no shape. Qwen4Exp selects the keys that full
# attention reads: what it keeps for that, 64 bytes a token and layer (0.33.0), is not counted.
_ARCHITECTURES = (
    *("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
    *("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
    "Qwen4ExpForConditionalGeneration",
    *("Qwen3MoeForCausalLM", "Qwen3ForCausalLM", "DFlashDraftModel", "DFlash2DraftModel"),
)
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# More of anything is a lie, and too much for a plan's floating-point numbers.
_MOST = 2**40
_LAYERS = {"full_attention", "sliding_attention", "linear_attention"}


class Shape(Model):
    """A model's layers and sizes; a drafter has one of its own."""

    full_attention: int = Field(ge=0, description="layers whose KV cache grows with the context")
    sliding_attention: int = Field(default=0, ge=0, description="layers that keep a window of it")
    sliding_window: int = Field(default=0, ge=0, description="tokens of that window")
    linear_attention: int = Field(default=0, ge=0, description="layers with a state of fixed size")
    mtp: int = Field(default=0, ge=0, description="layers of the head that drafts tokens (MTP)")
    kv_heads: int = Field(ge=1, description="key-value heads of an attention layer")
    head_dim: int = Field(ge=1, description="numbers in one of its keys or values")
    heads: int = Field(default=0, ge=0, description="query heads of an attention layer, if known")
    experts: int = Field(default=0, ge=0, description="of a layer, if it has any")
    expert_size: int = Field(default=0, ge=0, description="numbers between its two matrices")
    linear_key_heads: int = Field(default=0, ge=0, description="of a linear-attention layer")
    linear_value_heads: int = Field(default=0, ge=0, description="of a linear-attention layer")
    linear_key_dim: int = Field(default=0, ge=0, description="numbers in one of its keys")
    linear_value_dim: int = Field(default=0, ge=0, description="numbers in one of its values")
    linear_kernel: int = Field(default=0, ge=0, description="tokens that its convolution spans")
    state_bytes: int = Field(default=4, ge=1, description="bytes of a number of its state")
    number_bytes: int = Field(default=2, ge=1, description="bytes of a number, if not quantized")
    fp8_kv_cache: bool = Field(default=False, description="what kv-cache-dtype auto stands for")
    quantized: bool = Field(default=False, description="whether the checkpoint itself is")
    positions: int = Field(ge=1, description="tokens of the longest context")
    hidden: int = Field(ge=1, description="numbers that stand for a token between layers")
    vision: int = Field(default=0, ge=0, description="parameters of the vision encoder, about")
    mtp_parameters: int = Field(default=0, ge=0, description="parameters of the MTP head, about")
    table_bytes: int = Field(default=0, ge=0, description="of a table of n-grams (PLE)")
    vocabulary: int = Field(
        default=0, ge=0, description="tokens that it knows; 0 = those of its target"
    )


def shape_of(config: Mapping[str, Any]) -> Shape | None:
    """Return the shape of a model by its parsed config.json.

    It is None if the architecture is not supported, or the file lacks something.
    """
    try:
        if not set(config.get("architectures") or ()) & set(_ARCHITECTURES):
            return None
        shape = _shape(config, config.get("text_config") or config)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None
    return shape if max(shape.model_dump().values()) < _MOST else None


def _shape(config: Mapping[str, Any], text: Mapping[str, Any]) -> Shape:
    layers = _layers(text)
    window = text.get("sliding_window") or 0
    quantization = config.get("quantization_config") or {}
    return Shape(
        full_attention=layers["full_attention"],
        sliding_attention=layers["sliding_attention"],
        sliding_window=window if "sliding_attention" in layers else 0,
        linear_attention=layers["linear_attention"],
        mtp=text.get("mtp_num_hidden_layers") or 0,
        kv_heads=text["num_key_value_heads"],
        head_dim=text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"],
        heads=text.get("num_attention_heads") or 0,
        experts=text.get("num_experts") or 0,
        expert_size=text.get("moe_intermediate_size") or 0,
        **_linear(text),
        number_bytes=_BYTES[_dtype(text) or _dtype(config) or "bfloat16"],
        fp8_kv_cache=_fp8_kv_cache(quantization),
        quantized=bool(quantization),
        positions=text["max_position_embeddings"],
        hidden=text["hidden_size"],
        vision=_vision(config.get("vision_config") or {}),
        mtp_parameters=_mtp(text),
        table_bytes=_table(text, quantization),
        vocabulary=text.get("vocab_size") or 0,
    )


def _layers(text: Mapping[str, Any]) -> Counter[str]:
    """Return the number of layers of each kind; by default all are full attention."""
    if kinds := text.get("layer_types"):
        if unknown := set(kinds) - _LAYERS:
            raise ValueError(f"layers of kind {', '.join(sorted(unknown))}")
        return Counter(kinds)
    return Counter({"full_attention": text["num_hidden_layers"]})


def _linear(text: Mapping[str, Any]) -> dict[str, int]:
    if "linear_attention" not in (text.get("layer_types") or ()):
        return {}
    return {
        "linear_key_heads": text["linear_num_key_heads"],
        "linear_value_heads": text["linear_num_value_heads"],
        "linear_key_dim": text["linear_key_head_dim"],
        "linear_value_dim": text["linear_value_head_dim"],
        "linear_kernel": text["linear_conv_kernel_dim"],
        "state_bytes": _BYTES[text.get("mamba_ssm_dtype") or "float32"],
    }


def _dtype(config: Mapping[str, Any]) -> Any:
    return config.get("dtype") or config.get("torch_dtype")


def _fp8_kv_cache(quantization: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint has scales for an FP8 KV cache, which vLLM then uses by default.

    Model Optimizer writes the name of the algorithm, or a scheme, as llm-compressor does.
    """
    scheme = quantization.get("kv_cache_scheme")
    named = quantization.get("kv_cache_quant_algo") or ""
    bits = isinstance(scheme, Mapping) and (scheme.get("type"), scheme.get("num_bits"))
    return bits == ("float", 8) or str(named).upper() == "FP8"


def _vision(vision: Mapping[str, Any]) -> int:
    """Return the parameters of a vision transformer: 4 attention and 2 MLP matrices a block."""
    if not vision:
        return 0
    names = ("depth", "hidden_size", "intermediate_size")
    depth, hidden, inner = _whole([vision[name] for name in names])
    return depth * (4 * hidden**2 + 2 * hidden * inner)


def _mtp(text: Mapping[str, Any]) -> int:
    """Return the parameters of MTP layers: nearly all are of the experts, three matrices each."""
    experts = ("num_experts", "moe_intermediate_size", "shared_expert_intermediate_size")
    names = ("mtp_num_hidden_layers", "hidden_size", *experts)
    layers, hidden, count, inner, shared = _whole([text.get(name) or 0 for name in names])
    return layers * 3 * hidden * (count * inner + shared)


def _table(text: Mapping[str, Any], quantization: Mapping[str, Any]) -> int:
    """Return the bytes of a table of n-grams: rows for each head of each n-gram of two and more."""
    names = ("ngram_size", "heads_per_ngram", "ngram_vocab_size_base", "ple_embed_dim")
    longest, heads, rows, width = _whole([text.get(name) or 0 for name in names])
    if not heads:
        return 0
    layers = quantization.get("quantized_layers") or {}
    found = [each for name, each in layers.items() if name.endswith(".ngram_embedding")]
    # NVFP4 has a scale of a byte for 16 numbers. `width` is that of all heads together.
    is_nvfp4 = any(each.get("quant_algo") == "NVFP4" for each in found)
    bits = 4.5 if is_nvfp4 else 8 if quantization else 16
    return int((longest - 1) * heads * rows * (width // ((longest - 1) * heads)) * bits / 8)


def _whole(numbers: list[Any]) -> list[int]:
    """Return whole numbers. A hub could give a list, and a list times a number fills the memory."""
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError(f"found {numbers}; expected whole numbers")
    return numbers
