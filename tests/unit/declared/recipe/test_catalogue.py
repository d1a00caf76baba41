"""The table of recipes: what it says of one, and that the documentation holds it."""

import pytest

from sparkwright.declared.recipe import vllm_names
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from tests.recipes import releases
from tests.recipes.catalogue import (
    CHOICE,
    CHOSEN,
    DOCUMENT,
    END,
    README,
    START,
    written,
    written_readme,
)
from tests.recipes.choices import CHOICES, recipe_of


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
    assert recipe.options.max_num_seqs
    says = "without its vision encoder" in recipe.description
    assert recipe.options.language_model_only is says
    is_explained = "uncensored by a third party" in recipe.description
    assert is_explained is ("heretic" in str(recipe).lower())


def test_the_release_of_every_recipe_can_be_had_and_is_in_the_table_of_names() -> None:
    assert not releases.lacking(), "run: python -m tests.recipes.releases"
    known = {*vllm_names.releases()}
    lacking = {each for each in releases.checked_by() if vllm_names.number(each) not in known}
    assert not lacking, f"{lacking}: run as root: python -m tests.recipes.names"
