"""The table to choose a recipe by.

    python -m deploys.plan.catalogue

prints it in Markdown. docs/recipes.md holds the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from deploys.plan.errors import PlanError
from deploys.plan.recipe import Figures, Recipe
from deploys.plan.recipes import load_recipe, recipe_names

HEAD = ("recipe", "serves", "on", "weights", "context", "tokens/s", "proven")

_NOT_TOLD = "?"
_CONTEXTS = {"auto": "what fits", None: "the model's"}


def table(recipes: Iterable[Recipe]) -> str:
    """Return a Markdown table with a line for each recipe.

    Args:
        recipes: What to show; recipes of the lab only are left out.
    """
    rows = [_row(recipe) for recipe in recipes if recipe.hardware != ["lab"]]
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(recipe: Recipe) -> tuple[str, ...]:
    context = recipe.args.get("max-model-len")
    weights = recipe.memory.weights_gib
    return (
        f"`{recipe.name}`",
        _line(recipe.description),
        f"{', '.join(recipe.hardware)}: {' or '.join(map(str, recipe.sparks))}",
        f"{weights:.0f} GiB" if weights else _NOT_TOLD,
        f"{context:,}" if isinstance(context, int) else _CONTEXTS.get(context, str(context)),
        "; ".join(_speeds(recipe)) or _NOT_TOLD,
        _line(recipe.proven),
    )


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _speeds(recipe: Recipe) -> Iterator[str]:
    """The source's speeds on the least number of Sparks, and on more if it has any of that."""
    least, *more = sorted(recipe.sparks)
    speed = _speed(recipe.for_sparks(least).expected)
    if speed:
        yield speed
    for count in more:
        own = recipe.by_sparks.get(str(count))
        if own and own.expected:
            yield f"on {count}: {_speed(own.expected)}"


def _speed(expected: Figures) -> str:
    """One request's speed when it is alone, over all workloads, and the most of many together."""
    alone = [
        figures["tok_s"]
        for workload, figures in expected.items()
        if "tok_s" in figures and (workload == "concurrent-1" or not _many(workload))
    ]
    totals = [
        figures["total_tok_s"]
        for workload, figures in expected.items()
        if "total_tok_s" in figures and _many(workload)
    ]
    parts = []
    if alone:
        parts.append(" to ".join(dict.fromkeys(f"{end:.0f}" for end in (min(alone), max(alone)))))
    if totals:
        parts.append(f"{max(totals):.0f} in all")
    return ", ".join(parts)


def _many(workload: str) -> bool:
    return workload.startswith(("concurrent-", "mix-"))


def main() -> int:
    """Print the table. Returns the exit status."""
    try:
        print(table(map(load_recipe, recipe_names())))
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
