"""Says of recipes whether the vLLM that they name would take them.

    python -m tests.recipes [NAME …]

NAME is a recipe of files/recipes, or the path of a file beside which the recipes lie that it
extends; without one, all recipes are judged. Needs root and x86_64; the first time it downloads.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import RECIPES, load_recipe, recipe_names
from tests.lab.state import LabError
from tests.recipes import parser
from tests.recipes.judge import Case, cases, judge


def main(names: Sequence[str]) -> int:
    """Judge recipes and print a line for each number of Sparks. Returns the exit status."""
    wanted: list[Case] = []
    refused = 0
    for name in names or recipe_names():
        file = Path(name) if name.endswith(".yaml") else RECIPES / f"{name}.yaml"
        try:
            wanted += cases(file, load_recipe(str(file)))
        except PlanError as error:
            print(f"refused  {name}\n{error}")
            refused += 1
    try:
        verdicts = judge(wanted)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    for case, problems in verdicts.items():
        what = "parser and configuration"
        if case.unknown_models:
            unknown = " and ".join(case.unknown_models)
            what = f"parser only, as files/models has no {unknown}"
        if case.recipe.unjudged:
            what += f"; without {', '.join(case.recipe.unjudged)}, which it cannot judge"
        print(
            f"{'refused' if problems else 'good':8} {case.recipe.name}, {case.sparks} x "
            f"{case.hardware}: vLLM {case.recipe.judge}, {what}"
        )
        print("".join(f"{problem}\n" for problem in problems), end="")
        refused += bool(problems)
    return 1 if refused else 0


if __name__ == "__main__":
    command = parser("tests.recipes", __doc__)
    command.add_argument("name", nargs="*")
    sys.exit(main(command.parse_args().name))
