"""What the judge's tests share: the machine, and one judgement of everything."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sparkwright.declared.recipe.loader import RECIPES, load_recipe, recipe_names
from tests.lab.setup import missing_packages
from tests.recipes.judge import Case, cases, judge

BASE = "qwen3.5-122b-nvfp4-mtp"  # two Sparks as well, a model with MTP, on vLLM 0.28.0
Verdict = Callable[[str], dict[Case, list[str]]]


# By name: `key` and `value` of a wrong setting as a message shows them, what it says is `expected`,
# and what the copy says in `args` and `env`, beside what the recipe does.
BROKEN = yaml.safe_load(Path(__file__).with_name("broken.yaml").read_text())


def write(name: str, folder: Path) -> Path:
    """Write a copy of the recipe with one mistake into a folder and return its file."""
    wrong = {kind: BROKEN[name].get(kind, {}) for kind in ("args", "env")}
    data = yaml.safe_load((RECIPES / f"{BASE}.yaml").read_text())
    for kind, values in wrong.items():
        data[kind] |= values
    for difference in data.get("by_sparks", {}).values():
        # What one number of Sparks sets by itself would hide the mistake.
        for kind, values in wrong.items():
            for key in values:
                difference.get(kind, {}).pop(key, None)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    """A machine on which the judge can run."""
    if os.geteuid():
        pytest.skip("the judge needs root")
    if platform.machine() != "x86_64":
        pytest.skip(f"the judge's image is for x86_64; this machine is {platform.machine()}")
    if missing := missing_packages():
        pytest.skip(f"the lab needs packages: apt-get install {' '.join(missing)}")


@pytest.fixture(scope="session")
def verdict(machine: None, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """The cases of one recipe with what is wrong with each.

    All are judged together, good, quiet and broken ones: importing vLLM takes longer than to judge.
    """
    folder = tmp_path_factory.mktemp("broken")
    wanted = [
        case
        for name in BROKEN
        for case in cases(write(name, folder), load_recipe(str(folder / f"{name}.yaml")))
    ]
    recipes = {name: load_recipe(name) for name in recipe_names()}
    for name, recipe in recipes.items():
        wanted += cases(RECIPES / f"{name}.yaml", recipe)
    # One of each release, as it is when the engine is to log less.
    for recipe in {recipe.judge: recipe for recipe in recipes.values()}.values():
        wanted += cases(RECIPES / f"{recipe.name}.yaml", recipe.at_level("WARNING"))
    problems = judge(wanted)

    def of(name: str) -> dict[Case, list[str]]:
        return {case: told for case, told in problems.items() if case.recipe.name == name}

    return of
