"""The tiny checkpoints: well-formed, in several files, and the same each time."""

import hashlib
import json
import math
import struct
from pathlib import Path

import pytest

from tests.lab import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_model.write_models(folder)
    return folder


def header(path: Path) -> dict[str, dict[str, list[int]]]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        tensors: dict[str, dict[str, list[int]]] = json.loads(file.read(length))
    tensors.pop("__metadata__")
    ends = [0]
    for tensor in tensors.values():
        start, end = tensor["data_offsets"]
        assert start == ends[-1]
        assert end - start == 2 * math.prod(tensor["shape"])
        ends.append(end)
    assert path.stat().st_size == 8 + length + ends[-1]
    return tensors


def test_the_index_names_every_tensor_of_every_file(models: Path) -> None:
    index = json.loads((models / "model/model.safetensors.index.json").read_text())
    files = sorted((models / "model").glob("*.safetensors"))
    found = {name: path.name for path in files for name in header(path)}
    assert len(files) >= 2
    assert found == index["weight_map"]
    assert 8e6 < index["metadata"]["total_size"] < 40e6
    prefixes = ("model.language_model.", "model.visual.", "mtp.", "lm_head.")
    assert all(any(name.startswith(prefix) for name in found) for prefix in prefixes)


def test_the_drafter_is_one_file(models: Path) -> None:
    config = json.loads((models / "dflash/config.json").read_text())
    layers = config["dflash_config"]["target_layer_ids"]
    shape = header(models / "dflash/model.safetensors")["fc.weight"]["shape"]
    assert shape == [config["hidden_size"], config["hidden_size"] * len(layers)]


def test_the_same_source_makes_the_same_bytes(models: Path, tmp_path: Path) -> None:
    def digests(folder: Path) -> dict[str, str]:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        contents = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        return {name: hashlib.sha256(text).hexdigest() for name, text in contents.items()}

    tiny_model.write_models(tmp_path / "again")
    assert digests(tmp_path / "again") == digests(models)


def test_different_tensors_differ(models: Path) -> None:
    content = (models / "dflash/model.safetensors").read_bytes()
    tensors = header(models / "dflash/model.safetensors")
    start = len(content) - max(tensor["data_offsets"][1] for tensor in tensors.values())
    gate, up = (
        content[start + offsets[0] : start + offsets[1]]
        for offsets in (
            tensors[f"layers.0.mlp.{part}_proj.weight"]["data_offsets"] for part in ("gate", "up")
        )
    )
    assert len(gate) == len(up)
    assert gate != up


def test_tokens_have_one_number_each_and_fit_the_model(models: Path) -> None:
    tokenizer = json.loads((models / "model/tokenizer.json").read_text())
    numbers = dict(tokenizer["model"]["vocab"])
    numbers |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    config = json.loads((models / "model/config.json").read_text())
    assert sorted(numbers.values()) == list(range(len(numbers)))
    assert len(numbers) <= config["text_config"]["vocab_size"] < len(numbers) + 64
    assert numbers["<|im_end|>"] == config["text_config"]["eos_token_id"]
    assert numbers["<|image_pad|>"] == config["image_token_id"]


def test_only_words_can_be_said(models: Path) -> None:
    vocabulary = json.loads((models / "model/tokenizer.json").read_text())["model"]["vocab"]
    numbers = tiny_tokenizer.words()
    words = [token for token, number in vocabulary.items() if number in numbers]
    assert "Ġcomputer" in words
    assert all(len(word) >= 2 and word.replace("Ġ", " ").isascii() for word in words)


def test_merges_join_what_exists_by_then() -> None:
    model = tiny_tokenizer.tokenizer()["model"]
    assert isinstance(model, dict)
    for first, second in model["merges"]:
        whole = model["vocab"][first + second]
        assert model["vocab"][first] < whole
        assert model["vocab"][second] < whole
