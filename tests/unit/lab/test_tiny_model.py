"""The tiny checkpoints: the same each time; that vLLM loads them is in tests/contract."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.lab import tiny_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_model.write_models(folder)
    return folder


def test_the_same_source_makes_the_same_bytes(models: Path, tmp_path: Path) -> None:
    def digests(folder: Path) -> dict[str, str]:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        contents = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        return {name: hashlib.sha256(text).hexdigest() for name, text in contents.items()}

    tiny_model.write_models(tmp_path / "again")
    assert digests(tmp_path / "again") == digests(models)


def test_tokens_have_one_number_each_and_fit_the_model(models: Path) -> None:
    tokenizer = json.loads((models / "model/tokenizer.json").read_text())
    numbers = dict(tokenizer["model"]["vocab"])
    numbers |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    config = json.loads((models / "model/config.json").read_text())
    assert sorted(numbers.values()) == list(range(len(numbers)))
    assert len(numbers) <= config["text_config"]["vocab_size"] < len(numbers) + 64
    assert numbers["<|im_end|>"] == config["text_config"]["eos_token_id"]
    assert numbers["<|image_pad|>"] == config["image_token_id"]
