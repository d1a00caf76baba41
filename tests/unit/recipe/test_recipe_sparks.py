"""What a recipe says of one Spark and of two."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import parse
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.recipe.recipe import BySparks
from sparkwright.recipe.values import FABRIC_ENVIRONMENT
from tests.makers.recipe import good, problems, put


@pytest.mark.parametrize("variable", FABRIC_ENVIRONMENT)
def test_what_a_spark_finds_about_its_link_is_no_recipes(tmp_path: Path, variable: str) -> None:
    (problem,) = problems(tmp_path, env={variable: "x"})
    assert problem.startswith(f"env.{variable}: found it set; expected it left out")


def test_what_differs_with_a_number_of_sparks_replaces_the_rest(tmp_path: Path) -> None:
    base = {
        "sparks": [1, 2],
        "args": {"max-model-len": 4096, "speculative-config": {"method": "mtp", "tokens": 2}},
        "env": {"A": "1", "B": "1"},
    }
    own = {
        "args": {"speculative-config": {"method": "mtp"}, "shutdown-timeout": 60},
        "env": {"B": "2", "C": "${drafter}"},
        "start_timeout": 90,
    }
    put(tmp_path, {**good(), **base, "by_sparks": {2: own}})
    recipe = load_recipe("try", tmp_path)
    one, two = recipe.for_sparks(1), recipe.for_sparks(2)
    assert (one.args, one.env, one.start_timeout) == (base["args"], base["env"], 60)
    assert two.args == {
        "max-model-len": 4096,
        "speculative-config": {"method": "mtp"},
        "shutdown-timeout": 60,
    }
    assert two.env == {"A": "1", "B": "2", "C": "${drafter}"}
    assert (two.start_timeout, two.stop_timeout) == (90, 58)
    assert one.by_sparks == two.by_sparks == {}
    assert recipe.args == base["args"]


def test_a_recipe_without_differences_is_the_same_for_each_number(tmp_path: Path) -> None:
    put(tmp_path, {**good(), "sparks": [1, 2]})
    recipe = load_recipe("try", tmp_path)
    assert recipe.for_sparks(1) == recipe.for_sparks(2) == recipe


def test_problems_of_all_numbers_come_together(tmp_path: Path) -> None:
    def wrong() -> dict[str, object]:
        return {"args": {"port": 1}, "env": {"A_KEY": "x"}}

    by_sparks = {count: wrong() for count in (1, 2, 3)}
    found = problems(tmp_path, sparks=[1, 2], by_sparks=by_sparks, **wrong())
    assert len(found) == 9
    assert "by_sparks.3: found 3; expected 1 or 2, which `sparks` lists" in found


@pytest.mark.parametrize("name", recipe_names())
def test_two_sparks_keep_memory_free(name: str) -> None:
    recipe = load_recipe(name)
    if 2 in recipe.sparks and "gb10" in recipe.hardware:
        assert recipe.for_sparks(2).args["gpu-memory-utilization"] <= 0.75


def test_the_lab_recipe_differs_only_in_how_its_ranks_share_cores() -> None:
    recipe = load_recipe("lab-tiny")
    one, two = recipe.for_sparks(1), recipe.for_sparks(2)
    assert one.args == two.args
    assert two.env.items() - one.env.items() == {("VLLM_CPU_OMP_THREADS_BIND", "nobind")}


@pytest.mark.parametrize("figure", [-1.0, float("nan"), float("inf")])
def test_figures_that_cannot_be(figure):
    with pytest.raises(PlanError, match=r"expected\.single\.tok_s: found"):
        parse(BySparks, {"expected": {"single": {"tok_s": figure}}}, "r.yaml")
