"""Writes the tables of recipes in docs/recipes.md and README.md: python -m tests.recipes.catalogue.

What of them is for a choice, tests/recipes/choices.py has; what owners have proved, docs/records.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.options import AUTO
from sparkwright.declared.recipe.recipe import Figures, Recipe
from tests.recipes import choices
from tests.recipes.records import proofs

_ROOT = Path(__file__).parents[2]
DOCUMENT, README = _ROOT / "docs" / "recipes.md", _ROOT / "README.md"
# What stands before and after the tables.
START = "<!-- catalogue: python -m tests.recipes.catalogue -->\n"
END = "<!-- end of catalogue -->"
CHOICE = "<!-- choice: python -m tests.recipes.catalogue -->\n"
CHOSEN = "<!-- end of choice -->"
HEAD = ("recipe", "serves", "on", "context", "tokens/s")

# Titles of the tables, the most important first.
_SPARK, _BUILT, _CARD = "On Sparks", "On Sparks, with an image to be built", "On graphics cards"

_UNKNOWN = "?"
_CONTEXTS = {AUTO: "what fits", None: "the model's"}


def catalogue(recipes: Iterable[Recipe]) -> str:
    """Return Markdown with a table for each kind of machine and image.

    Args:
        recipes: Those for the lab alone are left out.
    """
    kinds: dict[str, list[Recipe]] = {_SPARK: [], _BUILT: [], _CARD: []}
    for recipe in recipes:
        if recipe.hardware != ["lab"]:
            kinds[_kind(recipe)].append(recipe)
    return "\n\n".join(f"### {kind}\n\n{table(found)}" for kind, found in kinds.items() if found)


def _kind(recipe: Recipe) -> str:
    if not any(HARDWARE[name].unified for name in recipe.hardware):
        return _CARD
    return _BUILT if recipe.build else _SPARK


def table(recipes: Iterable[Recipe]) -> str:
    """Return a Markdown table with a line for each recipe."""
    return choices.markdown(HEAD, map(_row, recipes))


def _row(recipe: Recipe) -> tuple[str, ...]:
    context = recipe.options.max_model_len
    return (
        f"`{recipe.name}`",
        _line(recipe.description),
        f"{', '.join(recipe.hardware)}: {' or '.join(map(str, recipe.sparks))}",
        _CONTEXTS.get(context) or f"{context:,}",
        proofs(recipe.name, speed) or "; ".join(_speeds(recipe)) or _UNKNOWN,
    )


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _speeds(recipe: Recipe) -> Iterator[str]:
    """The source's speeds on the least number of Sparks, and on more if it has any of that."""
    least, *more = sorted(recipe.sparks)
    if alone := speed(recipe.for_sparks(least).expected):
        yield alone
    for count in more:
        own = recipe.by_sparks.get(str(count))
        if own and own.expected:
            yield f"on {count}: {speed(own.expected)}"


def speed(expected: Figures) -> str:
    """One request's speed when it is alone, over all workloads, and the most of many together."""
    alone, totals = [], []
    for workload, figures in expected.items():
        is_many = workload.startswith(("concurrent-", "mix-", "rag-"))
        if "tok_s" in figures and (workload == "concurrent-1" or not is_many):
            alone.append(figures["tok_s"])
        if "total_tok_s" in figures and is_many:
            totals.append(figures["total_tok_s"])
    parts = []
    if alone:
        parts.append(" to ".join(dict.fromkeys(f"{end:.0f}" for end in (min(alone), max(alone)))))
    if totals:
        parts.append(f"{max(totals):.0f} in all")
    return ", ".join(parts)


def written(text: str) -> str:
    """Return the text of the document with all tables in their place."""
    tables = catalogue(map(load_recipe, recipe_names()))
    return _between(_between(text, CHOICE, choices.tables(), CHOSEN), START, tables, END)


def written_readme(text: str) -> str:
    """Return the text of README.md with the table of choices in its place."""
    return _between(text, CHOICE, choices.short_table(), CHOSEN)


def _between(text: str, start: str, tables: str, end: str) -> str:
    before, start, rest = text.partition(start)
    _, end, after = rest.partition(end)
    return f"{before}{start}{tables}\n{end}{after}"


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.recipes.catalogue", description=__doc__
    ).parse_args()
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
    README.write_text(written_readme(README.read_text()))
