"""What a recipe says of one Spark and of two."""

from pathlib import Path

from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.values import FABRIC_ENVIRONMENT
from tests.makers.recipe import good, problems, put


def test_what_a_spark_finds_about_its_link_is_no_recipes(tmp_path: Path) -> None:
    found = problems(tmp_path, env=dict.fromkeys(FABRIC_ENVIRONMENT, "x"))
    assert {each.partition("; ")[0] for each in found} == {
        f"env.{variable}: found it set" for variable in FABRIC_ENVIRONMENT
    }


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
    recipe = load_recipe(str(tmp_path / "try.yaml"))
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
    put(tmp_path, {**good(), "sparks": [1, 2]})
    same = load_recipe(str(tmp_path / "try.yaml"))
    assert same.for_sparks(1) == same.for_sparks(2) == same


def test_problems_of_all_numbers_come_together(tmp_path: Path) -> None:
    def wrong() -> dict[str, object]:
        return {"args": {"port": 1}, "env": {"A_KEY": "x"}}

    by_sparks = {count: wrong() for count in (1, 2, 3)}
    found = problems(tmp_path, sparks=[1, 2], by_sparks=by_sparks, **wrong())
    assert len(found) == 9
    assert "by_sparks.3: found 3; expected 1 or 2, which `sparks` lists" in found


def test_two_sparks_keep_memory_free() -> None:
    for recipe in map(load_recipe, recipe_names()):
        if 2 in recipe.sparks and "gb10" in recipe.hardware:
            assert recipe.for_sparks(2).args["gpu-memory-utilization"] <= 0.75, recipe.name


def test_the_lab_recipe_differs_only_in_how_its_ranks_share_cores() -> None:
    recipe = load_recipe("lab-tiny")
    one, two = recipe.for_sparks(1), recipe.for_sparks(2)
    assert one.args == two.args
    assert two.env.items() - one.env.items() == {("VLLM_CPU_OMP_THREADS_BIND", "nobind")}
