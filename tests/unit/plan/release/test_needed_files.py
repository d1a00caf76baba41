"""The files of a repository that an engine reads, and the shape that its config.json says."""

from collections.abc import Collection
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import parse
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release.model_config import Shape, shape_of
from sparkwright.plan.release.needed_files import Choice, choice_of, needed
from tests.makers.refused import refusal
from tests.makers.release import MODEL_CONFIG

GB = 10**9
# As openai/gpt-oss-120b is: three copies of the model, each of about 61 GB.
SHARDS = {f"model-{number:05}-of-00003.safetensors": 20 * GB for number in range(1, 4)}
TEXTS = {"tokenizer.json": 28_000_000, "chat_template.jinja": 16_000} | dict.fromkeys(
    [
        *("config.json", "generation_config.json", "tokenizer_config.json", "LICENSE"),
        *("special_tokens_map.json", "model.safetensors.index.json", "USAGE_POLICY", "README.md"),
    ],
    1_000,
)
COPIES = {
    ".gitattributes": 1_600,
    "original/config.json": 300,
    "original/dtypes.json": 20_000,
    "original/model--00001-of-00002.safetensors": 30 * GB,
    "original/model--00002-of-00002.safetensors": 30 * GB,
    "metal/model.bin": 61 * GB,
}


def chosen(
    files: Collection[str] | dict[str, int],
    choice: Choice = Choice(),  # noqa: B008
    shards: dict[str, Collection[str]] | None = None,
) -> set[str]:
    sizes = files if isinstance(files, dict) else dict.fromkeys(files, 1000)
    return {*needed(sizes, choice, lambda index: (shards or {}).get(index, ()), "o/n")}


def test_one_of_three_copies() -> None:
    found = chosen(SHARDS | TEXTS | COPIES, shards={"model.safetensors.index.json": {*SHARDS}})
    assert found == {*SHARDS, *TEXTS}


@pytest.mark.parametrize(
    ("files", "left_out"),
    [
        # No index: vLLM loads each of them.
        ({"model.safetensors", "mtp.safetensors", "config.json"}, set()),
        ({"model.safetensors", "config.json", "pytorch_model.bin", "model.pth"},
         {"pytorch_model.bin", "model.pth"}),
        ({"pytorch_model.bin", "training_args.bin", "weights.pt", "config.json"},
         {"training_args.bin", "weights.pt"}),
        ({"weights.pt", "optimizer.pt", "config.json"}, {"optimizer.pt"}),
        ({"consolidated.safetensors", "params.json", "tekken.json"}, set()),
        ({"model.safetensors", "onnx/model.onnx", "onnx/config.json", "a.png", "q4.gguf"},
         {"onnx/model.onnx", "onnx/config.json", "a.png", "q4.gguf"}),
        ({"q4.gguf", "config.json"}, set()),
        ({"adapter_model.safetensors", "adapter_config.json"}, set()),
        # Code of the model, with its packages; what it was trained with.
        ({"model.safetensors", "modeling_x.py", "encoding/render.py", "runs/log/events.1"},
         {"runs/log/events.1"}),
        ({"model.safetensors", "additional_chat_templates/tools.jinja", "vocab.txt", "a.model"},
         set()),
        ({"model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
          "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin"}, {"2_Dense/pytorch_model.bin"}),
        ({"model.safetensors", "2_Dense/pytorch_model.bin", "3_x/deep/pytorch_model.bin"},
         {"3_x/deep/pytorch_model.bin"}),
    ],
)  # fmt: skip
def test_what_is_left_out(files: set[str], left_out: set[str]) -> None:
    assert files - chosen(files) == left_out


def test_large_data_in_a_folder_is_no_text() -> None:
    files = {"model.safetensors": GB, "data/train.json": 5 * 10**6, "data/small.json": 4 * 10**6}
    assert chosen(files) == {"model.safetensors", "data/small.json"}


def test_mistrals_weights_are_fetched_where_they_are_read() -> None:
    texts = {"config.json", "params.json", "tekken.json"}
    mistral = {*texts, "consolidated.safetensors"}
    files = {*mistral, *SHARDS}
    assert chosen(files, Choice(format="mistral")) == chosen(mistral) == mistral
    assert chosen(files) == {*texts, *SHARDS}
    assert chosen(files, Choice(format="any")) == files


def test_an_index_says_which_set_it_is() -> None:
    files = {*SHARDS, "model.safetensors", "head.safetensors", "model.safetensors.index.json"}
    index = {"model.safetensors.index.json": {*SHARDS, "head.safetensors"}}
    assert files - chosen(files, shards=index) == {"model.safetensors"}


@pytest.mark.parametrize(
    ("files", "index", "missing"),
    [
        ({*SHARDS, "model.safetensors.index.json"}, {*SHARDS, "head.safetensors"},
         "model.safetensors.index.json: found no shard head.safetensors;"),
        ({*[*SHARDS][:2]}, set(), "found no shard model-00003-of-00003.safetensors;"),
        ({"model-00003-of-00003.safetensors"}, set(),
         "found no shard model-00001-of-00003.safetensors and 1 more;"),
        ({"x-00001-of-99999.safetensors"}, set(), "found no shard x-00002-of-99999.safetensors;"),
    ],
)  # fmt: skip
def test_a_shard_that_is_missing(files: set[str], index: set[str], missing: str) -> None:
    said = refusal(chosen, files, shards={"model.safetensors.index.json": index})
    assert missing in said
    assert "the repository is not complete" in said


def test_patterns_replace_the_rules() -> None:
    files = SHARDS | TEXTS | COPIES
    assert chosen(files, Choice(("original/", "tok*.json"))) == {
        *(path for path in files if path.startswith("original/")),
        "tokenizer.json",
        "tokenizer_config.json",
    }
    # As huggingface_hub reads them: * is any letters, and a / as well.
    assert "original/config.json" in chosen(files, Choice(("*.json",)))


def test_patterns_that_leave_a_shard_out_or_match_nothing_are_refused() -> None:
    index = {"model.safetensors.index.json": {*SHARDS}}
    with pytest.raises(PlanError, match=r"files: found no file for \*\.gguf; expected a pattern"):
        chosen(SHARDS | TEXTS, Choice(("*.gguf", "*.json")))
    for patterns in (("*.json",), ("model-00001*",)):
        with pytest.raises(PlanError, match=r"found no shard .*among the recipe's `files`"):
            chosen(SHARDS | TEXTS, Choice(patterns), index)


@pytest.mark.parametrize(
    ("args", "format"),
    [
        ({}, "transformers"),
        ({"load-format": "fastsafetensors"}, "transformers"),
        ({"config-format": "mistral", "load-format": "auto"}, "mistral"),
        ({"load-format": "mistral"}, "mistral"),
        ({"load-format": "sharded_state"}, "any"),
    ],
)
def test_the_format_is_the_recipes(args: dict[str, str], format: str) -> None:
    recipe = load_recipe("qwen3.6-35b-nvfp4-dflash")
    changed = recipe.model_copy(update={"args": recipe.args | args})
    assert choice_of(changed, "model").format == format
    # A drafter has its own.
    assert choice_of(changed, "drafter") == Choice()


MODEL = checkpoint_data("Qwen/Qwen3.5-35B-A3B").config
TEXT = MODEL["text_config"]


def test_a_hybrid_with_experts_and_vision():
    shape = shape_of(MODEL)
    assert shape == Shape(
        full_attention=10,
        linear_attention=30,
        mtp=1,
        kv_heads=2,
        head_dim=256,
        heads=16,
        experts=256,
        expert_size=512,
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
