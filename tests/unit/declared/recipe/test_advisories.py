"""Which published faults a recipe's vLLM has, and that a reader finds each."""

from pathlib import Path

import pytest

from sparkwright.declared.recipe.advisories import advisories, concerning, warning
from sparkwright.declared.recipe.loader import load_recipe
from tests.commands import sparkwright

DOCS = Path(__file__).parents[4] / "docs"
RECIPE = load_recipe("qwen3.5-35b-nvfp4-rtx-5090")
N, TRUST = "GHSA-3mwp-wvh9-7528", "GHSA-7972-pg2x-xr59"


@pytest.mark.parametrize(
    ("vllm", "known"),
    [
        ("0.9.0", {N}),
        ("0.17.0", {N, TRUST}),
        ("0.18.0", {N}),
        ("0.19.0", set()),
        # Builds may be of before the release that they are nearest to.
        ("main of 2026-03-20 (about 0.18.0)", {N, TRUST}),
        ("main of 2026-03-31 (0.18.3.dev17)", {N}),
        ("0.28.0", set()),
        ("its image's own", set()),
    ],
)
def test_each_release_has_its_own(vllm: str, known: set[str]) -> None:
    found = {each.id for each in concerning(RECIPE.model_copy(update={"vllm": vllm}))}
    assert found & {N, TRUST} == known


def test_a_newer_release_is_named_and_has_none_of_them() -> None:
    told = warning(RECIPE)
    assert told
    assert told.startswith("recipe qwen3.5-35b-nvfp4-rtx-5090 has vLLM 0.18.0, of which faults")
    assert "0.24.0 or later" in told
    assert warning(RECIPE.model_copy(update={"vllm": "0.24.0"})) is None


def test_the_printed_command_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert sparkwright("recipes", "command", RECIPE.name) == 0
    assert f"\n# {warning(RECIPE)}\n" in capsys.readouterr().out


def test_the_page_has_all() -> None:
    page = (DOCS / "recipes.md").read_text()
    for each in advisories():
        fixed = ".".join(map(str, each.fixed))
        assert f"| `{each.id}` | {fixed} | {each.fault} |" in page
