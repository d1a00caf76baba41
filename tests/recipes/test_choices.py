"""Recipes of others that the table of choices names: their vLLM takes the line."""

from pathlib import Path

import pytest

from tests.recipes.choices import CHOICES, Choice, recipe_of
from tests.recipes.judge import Case, judge

OTHERS = [each for each in CHOICES if not isinstance(each.take, str)]


@pytest.mark.parametrize("choice", OTHERS, ids=lambda each: each.take.model)
def test_vllm_takes_the_line(choice: Choice) -> None:
    changes = {"vllm": "", "judged_by": choice.take.judge, "unjudged": [*choice.take.fork]}
    recipe = recipe_of(choice).model_copy(update=changes)
    case = Case(Path("recipe.yaml"), recipe, choice.sparks, recipe.hardware[0])
    (problems,) = judge([case]).values()
    assert not problems
