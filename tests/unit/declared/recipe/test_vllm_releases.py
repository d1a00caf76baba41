"""The lists of vLLM's releases by which recipes are checked, and what adds one to them."""

from pathlib import Path

import pytest

from sparkwright.declared.recipe import vllm_names
from tests.lab.state import LabError
from tests.recipes import add_release


def test_the_release_of_every_recipe_can_be_had() -> None:
    assert not add_release.lacking(), "run: python -m tests.recipes.add_release"


def test_the_release_of_every_recipe_is_in_the_table_of_names() -> None:
    known = {*vllm_names.releases()}
    lacking = {each for each in add_release.checked_by() if vllm_names.number(each) not in known}
    assert not lacking, f"{lacking}: run as root: python -m tests.recipes.names"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The text of releases.txt; a copy of it without 0.28.0 takes its place."""
    text = add_release.LIST.read_text()
    copy = tmp_path / "releases.txt"
    copy.write_text("".join(line for line in text.splitlines(True) if "vllm==0.28.0 " not in line))
    monkeypatch.setattr(add_release, "LIST", copy)
    monkeypatch.setattr("tests.recipes.releases.LIST", copy)
    return text


def test_a_release_is_added_in_its_place_with_the_hash_that_pip_has(
    held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "0.28.0" in add_release.lacking()
    (line,) = {*held.splitlines()} - {*add_release.LIST.read_text().splitlines()}
    monkeypatch.setattr(add_release, "sha256", {"0.28.0": line.rpartition(":")[2]}.__getitem__)
    assert add_release.main(["0.28.0"]) == 0
    assert add_release.LIST.read_text() == held
    assert "0.28.0" not in add_release.lacking()


def test_a_release_that_pip_lacks_changes_nothing(
    held: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacks(version: str) -> str:
        raise LabError(f"pip: No matching distribution found for vllm=={version}")

    before = add_release.LIST.read_text()
    monkeypatch.setattr(add_release, "sha256", lacks)
    assert add_release.main(["9.9.9"]) == 1
    assert "vllm==9.9.9" in capsys.readouterr().err
    assert add_release.LIST.read_text() == before
