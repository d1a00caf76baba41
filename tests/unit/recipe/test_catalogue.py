"""The table of recipes: what it says of one, and that the documentation holds it."""

from pathlib import Path

import pytest
import yaml

from sparkwright.recipe.loader import RECIPES as PROJECT_RECIPES
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.recipe.recipe import Recipe
from tests.makers.recipe import good, put
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


def recipe(folder: Path, **changes: object) -> Recipe:
    put(folder, {**good(), **changes})
    return load_recipe("try", folder)


def cells(folder: Path, **changes: object) -> list[str]:
    """Of the one line that a recipe makes."""
    *_, line = table([recipe(folder, **changes)]).splitlines()
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_documentation_holds_the_tables() -> None:
    text, readme = DOCUMENT.read_text(), README.read_text()
    assert text.count(START) == text.count(END) == 1
    for page in (text, readme):
        assert page.count(CHOICE) == page.count(CHOSEN) == 1
    assert written(text) == text, "run: python -m tests.recipes.catalogue"
    assert written_readme(readme) == readme, "run: python -m tests.recipes.catalogue"


def test_a_choice_names_a_recipe_that_is_for_so_many_sparks() -> None:
    for choice in CHOICES:
        assert choice.sparks in recipe_of(choice).sparks, choice.need


def test_a_pair_is_offered_what_does_not_fit_one() -> None:
    models = {recipe_of(each).checkpoints["model"].repo for each in CHOICES if each.sparks == 2}
    for name in ("DeepSeek-V4-Flash", "MiniMax", "GLM-5.3-Flash"):
        assert any(name in model for model in models), name


RECIPES = [each for each in map(load_recipe, recipe_names()) if each.hardware != ["lab"]]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_a_recipe_says_what_it_favors(recipe: Recipe) -> None:
    if recipe.answers == "chat":
        # vLLM's own number for the memory of a Spark.
        tokens = recipe.options.max_num_batched_tokens or 8192
        assert recipe.favors == ("throughput" if tokens > 8192 else "first-token")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda each: each.name)
def test_a_recipe_bounds_its_requests_or_says_why_not(recipe: Recipe) -> None:
    files = [PROJECT_RECIPES / f"{recipe.name}.yaml"]
    if base := yaml.safe_load(files[0].read_text()).get("extends"):
        files.append(PROJECT_RECIPES / f"{base}.yaml")
    assert recipe.options.max_num_seqs or any("max-num-seqs" in f.read_text() for f in files)


def test_a_recipe_without_images_says_so_to_vllm_and_to_people() -> None:
    for recipe in RECIPES:
        says = "without its vision encoder" in recipe.description
        assert recipe.options.language_model_only is says, recipe.name


def test_the_tables_are_written_between_their_markers() -> None:
    tables = catalogue(map(load_recipe, recipe_names()))
    text = f"before\n{CHOICE}{CHOSEN}\n{START}an old table\n{END}\nafter\n"
    assert written(text).endswith(f"\n{START}{tables}\n{END}\nafter\n")
    assert written(text).startswith(f"before\n{CHOICE}**One Spark**\n\n| for |")


def test_heretic_is_explained_where_it_is_served() -> None:
    named = [each for each in map(load_recipe, recipe_names()) if "heretic" in str(each).lower()]
    assert named
    for each in named:
        assert "uncensored by a third party" in each.description, each.name


def test_every_recipe_but_the_labs_has_a_line() -> None:
    lines = catalogue(map(load_recipe, recipe_names())).splitlines()
    shown = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert sorted(shown) == [name for name in recipe_names() if not name.startswith("lab-")]


def test_cards_and_builds_have_tables_of_their_own() -> None:
    names = ("qwen3.5-35b-sm121", "qwen3.5-35b-nvfp4-rtx-5090", "qwen3.6-35b-nvidia", "lab-built")
    lines = catalogue(map(load_recipe, names)).splitlines()
    assert [line for line in lines if line.startswith(("###", "| `"))] == [
        "### On Sparks",
        next(line for line in lines if "qwen3.6-35b-nvidia" in line),
        "### On Sparks, with an image to be built",
        next(line for line in lines if "qwen3.5-35b-sm121" in line),
        "### On graphics cards",
        next(line for line in lines if "qwen3.5-35b-nvfp4-rtx-5090" in line),
    ]


def test_a_line(tmp_path: Path) -> None:
    assert cells(
        tmp_path,
        description="A model\nof ours.",
        sparks=[1, 2],
        args={"max-model-len": 262144},
        expected={"single": {"tok_s": 83.9, "tok_s_min": 41.1}, "prose": {"tok_s": 25.4}},
    ) == ["`try`", "A model of ours.", "gb10: 1 or 2", "262,144", "25 to 84"]


def test_what_a_source_does_not_tell(tmp_path: Path) -> None:
    assert cells(tmp_path, args={"max-model-len": "auto"})[3:] == ["what fits", "?"]
    assert cells(tmp_path, args={})[3] == "the model's"


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        ({"short": {"tok_s": 31.6}, "code": {"tok_s": 31.7}}, "32"),
        ({"concurrent-1": {"tok_s": 109.1, "total_tok_s": 102.9}}, "109, 103 in all"),
        ({"concurrent-4": {"tok_s": 48.5, "total_tok_s": 128.1}}, "128 in all"),
        ({"json": {"tok_s": 50}, "mix-short": {"total_tok_s": 80}}, "50, 80 in all"),
        ({"long-8k": {"ttft_ms": 2550}}, "?"),
    ],
)
def test_speeds(tmp_path: Path, expected: object, shown: str) -> None:
    assert cells(tmp_path, expected=expected)[4] == shown


def test_two_sparks_have_speeds_of_their_own(tmp_path: Path) -> None:
    base = {"sparks": [1, 2], "expected": {"single": {"tok_s": 74.9}}}
    own = {2: {"expected": {"single": {"tok_s": 100.2}}}}
    assert cells(tmp_path, **base, by_sparks=own)[4] == "75; on 2: 100"
    assert cells(tmp_path, **base, by_sparks={2: {"expected": {}}})[4] == "75"


def test_a_bar_ends_no_cell(tmp_path: Path) -> None:
    assert r"a \| b" in table([recipe(tmp_path, description="a | b")])
