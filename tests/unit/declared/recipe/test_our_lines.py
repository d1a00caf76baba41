"""Recipes of ours say what their source says, and no more than what is told of."""

import pytest

from sparkwright.declared.recipe.loader import load_recipe

# What a recipe has beyond its source, as its comments say.
OURS = {"shutdown-timeout"}

FLASH_NEXT = {
    "max-model-len": 262144,
    "max-num-batched-tokens": 4096,
    "dtype": "bfloat16",
    "kv-cache-dtype": "fp8",
    "quantization": "modelopt_mixed",
    "block-size": 16,
    "mamba-cache-mode": "align",
    "enable-chunked-prefill": True,
    "enable-prefix-caching": True,
    "gdn-decode-kernel": "b12x",
    "linear-backend": "b12x",
    "moe-backend": "b12x",
    "enable-flashinfer-autotune": False,
    "mm-encoder-tp-mode": "data",
    "compilation-config": {"pass_config": {"fuse_act_quant": True}},
    "enable-auto-tool-choice": True,
    "tool-call-parser": "qwen3_xml",
    "reasoning-parser": "qwen3",
}
MTP = {"method": "mtp", "num_speculative_tokens": 4}
LINES = {
    # NVIDIA/dgx-spark-playbooks at 1949190, sync-vllm-single-spark-64gb.sh
    "qwen3.8-27b-nvidia-64gb": {
        "kv-cache-dtype": "fp8",
        "gpu-memory-utilization": 0.7,
        "max-model-len": 262144,
        "max-num-seqs": 8,
        "max-num-batched-tokens": 8192,
        "enable-chunked-prefill": True,
        "async-scheduling": True,
        "enable-prefix-caching": True,
        "load-format": "fastsafetensors",
        "reasoning-parser": "qwen3",
        "enable-auto-tool-choice": True,
        "tool-call-parser": "qwen3_xml",
    },
    # eugr/spark-vllm-docker at a881a13, with what its mod changes; and at 3737bcd
    "qwen3.8-flash-next-b12x": FLASH_NEXT
    | {
        "max-num-seqs": 8,
        "gpu-memory-utilization": 0.8,
        "load-format": "b12x",
        "speculative-config": MTP,
        "hf-overrides": {"text_config": {"ple_embedding_dtype": "nvfp4"}},
    },
    "qwen3.8-flash-next-b12x-pair": FLASH_NEXT
    | {
        "max-num-seqs": 16,
        "gpu-memory-utilization": 0.7,
        "load-format": "safetensors",
        "speculative-config": MTP | {"moe_backend": "triton"},
    },
}


@pytest.mark.parametrize("name", LINES)
def test_the_options_are_those_of_the_source(name: str) -> None:
    args = load_recipe(name).args
    assert {key: value for key, value in args.items() if key not in OURS} == LINES[name]


def test_the_images_and_checkpoints_are_those_of_the_source() -> None:
    small, alone, pair = map(load_recipe, LINES)
    assert small.base_image == "vllm/vllm-openai:qwen38"
    assert [each.repo for each in small.checkpoints.values()] == ["nvidia/Qwen3.8-27B-NVFP4"]
    for recipe, owner in ((alone, "local-inference-lab"), (pair, "nvidia")):
        assert recipe.base_image == "eugr/spark-vllm-b12x:latest"
        assert recipe.checkpoints["model"].repo == f"{owner}/Qwen3.8-Flash-Next-NVFP4"


def test_options_that_a_source_has_measured_or_left_out() -> None:
    args = load_recipe("qwen3.5-35b-1m").args
    assert "max-num-batched-tokens" not in args
    assert args["enable-prefix-caching"] is True
    for name, figure in (("qwen3.5-35b-fp8-community", 52.85), ("qwen3.5-35b-sm121", 48.6)):
        recipe = load_recipe(name)
        assert recipe.args["kv-cache-dtype"] == "fp8"
        assert figure in {each["tok_s"] for each in recipe.expected.values()}
