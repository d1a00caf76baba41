"""A recipe that takes over what another says, and built images."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe import loader
from sparkwright.declared.recipe.loader import load_recipe
from tests.makers.recipe import good, put
from tests.makers.refused import refused

OWN = {"extends": "base", "description": "Another.", "source": "here", "proven": "By us."}


@pytest.fixture(autouse=True)
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no recipes but those of the test."""
    monkeypatch.setattr(loader, "RECIPES", tmp_path)
    monkeypatch.setattr(loader, "OWN_RECIPES", tmp_path)


def extended(folder: Path, **own: object):
    base = {
        "args": {"max-model-len": 4096, "dtype": "auto"},
        "expected": {"single": {"tok_s": 50}},
        "sparks": [1, 2],
        "by_sparks": {2: {"args": {"dtype": "half"}}},
    }
    put(folder, {**good(), **base}, "base")
    put(folder, {**OWN, **own})
    return load_recipe(str(folder / "try.yaml"))


def test_what_a_recipe_does_not_say_is_the_others(tmp_path: Path) -> None:
    recipe = extended(tmp_path, args={"dtype": "half"}, env={"A": "1"}, start_timeout=90)
    assert (recipe.name, recipe.description) == ("try", "Another.")
    assert recipe.args == {"max-model-len": 4096, "dtype": "half"}
    assert recipe.env == {"VLLM_LOGGING_LEVEL": "INFO", "A": "1"}
    assert recipe.start_timeout == 90
    assert recipe.image == "example.org/vllm:1"
    assert recipe.for_sparks(2).args["dtype"] == "half"
    # What was measured belongs to one recipe.
    assert not recipe.expected
    # Null takes a key away.
    recipe = extended(tmp_path, args={"dtype": None}, checkpoints={"drafter": None})
    assert recipe.args == {"max-model-len": 4096}
    assert list(recipe.checkpoints) == ["model"]


@pytest.mark.parametrize("count", [2, "2"])
def test_a_count_of_sparks_is_one_key_however_it_is_written(tmp_path: Path, count: object) -> None:
    assert extended(tmp_path, by_sparks={count: None}).by_sparks == {}


def test_a_recipe_says_of_itself_what_it_is(tmp_path: Path) -> None:
    put(tmp_path, good(), "base")
    put(tmp_path, {"extends": "base"})
    found = refused(load_recipe, str(tmp_path / "try.yaml"))
    assert [problem.split(": ")[1] for problem in found] == ["description", "source", "proven"]


@pytest.mark.parametrize("base", ["bse", 5])
def test_a_recipe_extends_one_that_there_is(tmp_path: Path, base: object) -> None:
    with pytest.raises(PlanError, match=r"extends: found .*; (expected base|did you mean 'base')"):
        extended(tmp_path, extends=base)


def test_a_recipe_extends_none_that_extends_and_not_itself(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="extends: found itself; expected another recipe"):
        extended(tmp_path, extends="try")
    extended(tmp_path)
    put(tmp_path, {**OWN, "extends": "try"}, "third")
    with pytest.raises(PlanError, match="extends: found try, which extends base; expected"):
        load_recipe(str(tmp_path / "third.yaml"))


def test_figures_differ_with_the_number_of_sparks(tmp_path: Path) -> None:
    two = {2: {"expected": {"single": {"tok_s": 70}}}}
    recipe = extended(tmp_path, expected={"short": {"tok_s": 40}}, by_sparks=two)
    assert recipe.for_sparks(1).expected == {"short": {"tok_s": 40}}
    assert recipe.for_sparks(2).expected == {"single": {"tok_s": 70}}


@pytest.mark.parametrize("base", ["", "null", "''", "[]", "false"])
def test_extends_nothing(tmp_path, base):
    """An empty `extends` is told as what it is, not as an unknown key."""
    (tmp_path / "one.yaml").write_text("description: One.\n")
    (tmp_path / "two.yaml").write_text(f"extends: {base}\n")
    with pytest.raises(PlanError, match=r"two\.yaml:1: extends: found .*; expected one"):
        load_recipe(str(tmp_path / "two.yaml"))
