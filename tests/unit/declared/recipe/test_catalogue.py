"""The table of recipes: what it says of one, and that the documentation holds it."""

from pathlib import Path

import pytest
import yaml

from sparkwright.declared.recipe.loader import RECIPES as PROJECT_RECIPES
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from tests.makers.recipe import loaded
from tests.recipes.catalogue import (
    CHOICE,
    CHOSEN,
    DOCUMENT,
    END,
    README,
    START,
    catalogue,
    table,
    written,
    written_readme,
)
from tests.recipes.choices import CHOICES, recipe_of


def cells(folder: Path, **changes: object) -> list[str]:
    """Of the one line that a recipe makes."""
    *_, line = table([loaded(folder, **changes)]).splitlines()
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_documentation_holds_the_tables() -> None:
    text, readme = DOCUMENT.read_text(), README.read_text()
    assert text.count(START) == text.count(END) == 1
    for page in (text, readme):
        assert page.count(CHOICE) == page.count(CHOSEN) == 1
    assert written(text) == text, "run: python -m tests.recipes.catalogue"
    assert written_readme(readme) == readme, "run: python -m tests.recipes.catalogue"


def test_choices_name_recipes_for_so_many_sparks_and_a_pair_gets_what_does_not_fit_one() -> None:
    for choice in CHOICES:
        assert choice.sparks in recipe_of(choice).sparks, choice.need
    models = {recipe_of(each).checkpoints["model"].repo for each in CHOICES if each.sparks == 2}
    for name in ("DeepSeek-V4-Flash", "MiniMax", "GLM-5.3-Flash"):
        assert any(name in model for model in models), name


RECIPES = [each for each in map(load_recipe, recipe_names()) if each.hardware != ["lab"]]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_a_recipe_says_what_it_does_to_requests(recipe: Recipe) -> None:
    """What it favors; how many requests it bounds; which parts of its model are missing."""
    if recipe.answers == "chat":
        # vLLM's own number for the memory of a Spark.
        tokens = recipe.options.max_num_batched_tokens or 8192
        assert recipe.favors == ("throughput" if tokens > 8192 else "first-token")
    files = [PROJECT_RECIPES / f"{recipe.name}.yaml"]
    if base := yaml.safe_load(files[0].read_text()).get("extends"):
        files.append(PROJECT_RECIPES / f"{base}.yaml")
    assert recipe.options.max_num_seqs or any("max-num-seqs" in f.read_text() for f in files)
    says = "without its vision encoder" in recipe.description
    assert recipe.options.language_model_only is says
    is_explained = "uncensored by a third party" in recipe.description
    assert is_explained is ("heretic" in str(recipe).lower())


def test_every_recipe_but_the_labs_has_a_line() -> None:
    lines = catalogue(map(load_recipe, recipe_names())).splitlines()
    shown = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert sorted(shown) == [name for name in recipe_names() if not name.startswith("lab-")]


def test_a_line(tmp_path: Path) -> None:
    assert cells(
        tmp_path,
        description="A model\nof ours.",
        sparks=[1, 2],
        args={"max-model-len": 262144},
        expected={"single": {"tok_s": 83.9, "tok_s_min": 41.1}, "prose": {"tok_s": 25.4}},
    ) == ["`try`", "A model of ours.", "gb10: 1 or 2", "262,144", "25 to 84"]
    assert r"a \| b" in table([loaded(tmp_path, description="a | b")])
    # What a source does not tell.
    assert cells(tmp_path, args={"max-model-len": "auto"})[3:] == ["what fits", "?"]
    assert cells(tmp_path, args={})[3] == "the model's"


ONE = {"single": {"tok_s": 74.9}}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"expected": {"short": {"tok_s": 31.6}, "code": {"tok_s": 31.7}}}, "32"),
        ({"expected": {"concurrent-1": {"tok_s": 109.1, "total_tok_s": 102.9}}}, "109, 103 in all"),
        ({"expected": {"concurrent-4": {"tok_s": 48.5, "total_tok_s": 128.1}}}, "128 in all"),
        ({"expected": {"json": {"tok_s": 50}, "mix-short": {"total_tok_s": 80}}}, "50, 80 in all"),
        ({"expected": {"long-8k": {"ttft_ms": 2550}}}, "?"),
        (
            {"expected": ONE, "by_sparks": {2: {"expected": {"single": {"tok_s": 100.2}}}}},
            "75; on 2: 100",
        ),
        ({"expected": ONE, "by_sparks": {2: {"expected": {}}}}, "75"),
    ],
)
def test_speeds(tmp_path: Path, changes: dict[str, object], shown: str) -> None:
    assert cells(tmp_path, sparks=[1, 2], **changes)[4] == shown
