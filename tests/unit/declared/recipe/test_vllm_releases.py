"""The lists of vLLM's releases by which recipes are checked, and what adds one to them."""

from pathlib import Path

import pytest

from sparkwright.declared.recipe import vllm_names
from tests.lab.state import LabError
from tests.recipes import releases


def test_the_release_of_every_recipe_can_be_had_and_is_in_the_table_of_names() -> None:
    assert not releases.lacking(), "run: python -m tests.recipes.releases"
    known = {*vllm_names.releases()}
    lacking = {each for each in releases.checked_by() if vllm_names.number(each) not in known}
    assert not lacking, f"{lacking}: run as root: python -m tests.recipes.names"


def test_a_release_is_added_in_its_place_with_the_hash_that_pip_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, copy = releases.LIST.read_text(), tmp_path / "releases.txt"
    (line,) = (line for line in text.splitlines(True) if "vllm==0.28.0 " in line)
    less = text.replace(line, "")
    copy.write_text(less)
    monkeypatch.setattr(releases, "LIST", copy)
    assert "0.28.0" in releases.lacking()

    def sha256(version: str) -> str:
        if version != "0.28.0":
            raise LabError(f"pip: No matching distribution found for vllm=={version}")
        return line.rstrip().rpartition(":")[2]

    monkeypatch.setattr(releases, "sha256", sha256)
    assert releases.main(["9.9.9"]) == 1
    assert "vllm==9.9.9" in capsys.readouterr().err
    assert copy.read_text() == less
    assert releases.main(["0.28.0"]) == 0
    assert copy.read_text() == text
