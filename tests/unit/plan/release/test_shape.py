"""What a checkpoint's config.json says of its shape."""

from typing import Any

import pytest

from sparkwright.common.schema import parse
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release.model_config import Shape, shape_of
from tests.makers.release import MODEL_CONFIG

MODEL = checkpoint_data("Qwen/Qwen3.5-35B-A3B").config
TEXT = MODEL["text_config"]
DRAFTER = {
    "architectures": ["DFlashDraftModel"],
    "head_dim": 128,
    "hidden_size": 2048,
    "layer_types": ["sliding_attention"] * 4 + ["full_attention"] * 4,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_hidden_layers": 8,
    "num_key_value_heads": 4,
    "sliding_window": 2048,
    "torch_dtype": "bfloat16",
}


def test_a_hybrid_with_experts_and_vision():
    shape = shape_of(MODEL)
    assert shape == Shape(
        full_attention=10,
        linear_attention=30,
        mtp=1,
        kv_heads=2,
        head_dim=256,
        linear_key_heads=16,
        linear_value_heads=32,
        linear_key_dim=128,
        linear_value_dim=128,
        linear_kernel=4,
        positions=262_144,
        hidden=2048,
        vision=411_070_464,
        mtp_parameters=808_452_096,
        vocabulary=248_320,
    )
    assert parse(Shape, shape.model_dump(exclude_none=True), "lock") == shape
    # A large number takes no memory.
    assert shape_of(MODEL_CONFIG | {"num_hidden_layers": 10**12}).full_attention == 10**12


def test_a_drafter():
    shape = shape_of(DRAFTER)
    assert (shape.full_attention, shape.sliding_attention, shape.sliding_window) == (4, 4, 2048)
    assert (shape.kv_heads, shape.head_dim, shape.linear_attention) == (4, 128, 0)
    # Layers are full attention where nothing is said.
    config = {name: value for name, value in DRAFTER.items() if name != "layer_types"}
    shape = shape_of(config | {"head_dim": None})
    assert (shape.full_attention, shape.sliding_window, shape.head_dim) == (8, 0, 64)


@pytest.mark.parametrize(
    ("given", "fp8"),
    [
        ({"kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}, True),
        ({"kv_cache_quant_algo": "FP8"}, True),
        ({"kv_cache_scheme": None}, False),
    ],
)
def test_scales_for_an_fp8_cache(given: dict[str, Any], fp8: bool):
    shape = shape_of(MODEL | {"quantization_config": {"quant_method": "x"} | given})
    assert (shape.quantized, shape.fp8_kv_cache) == (True, fp8)


def test_what_cannot_be_counted_has_no_shape():
    assert shape_of({}) is None
    assert shape_of({"architectures": ["DeepseekV3ForCausalLM"]}) is None
    assert shape_of(MODEL | {"text_config": {"hidden_size": 2048}}) is None
    assert shape_of(MODEL | {"text_config": TEXT | {"layer_types": ["mamba"]}}) is None


@pytest.mark.parametrize(
    "lie",
    [
        {"architectures": 5},
        {"architectures": [["Qwen3ForCausalLM"]]},
        {"num_hidden_layers": [1]},
        {"hidden_size": 2**41},
        {"head_dim": None, "num_attention_heads": 0},
        {"vision_config": {"depth": [1], "hidden_size": 10**9, "intermediate_size": 1}},
        {"vision_config": {"depth": 1e400, "hidden_size": 1, "intermediate_size": 1}},
    ],
    ids=str,
)
def test_a_lie_of_the_hub_is_no_shape(lie: dict[str, Any]):
    assert shape_of(MODEL_CONFIG)
    assert shape_of(MODEL_CONFIG | lie) is None
