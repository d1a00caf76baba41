"""Recipes that others publish: `python -m tests.published` says which are taken."""

from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.imports import read
from sparkwright.declared.recipe.published.draft import Translated
from sparkwright.declared.recipe.published.sources import Checkout, entries
from sparkwright.declared.recipe.recipe import Recipe


def published(path: str | Path, part: str = "default") -> tuple[Recipe, Translated]:
    """Return the recipe of a file, or a variant of it, as one of ours.

    Raises:
        PlanError: It is none, or cannot be taken.
    """
    path = Path(path)
    for entry in entries(Checkout(path.parent, "there")):
        document = entry.document
        if isinstance(document, PlanError) and str(path) in str(document):
            raise document
        same = not isinstance(document, PlanError) and document.path == path
        if same and entry.part in ("", part):
            return read(entry)
    raise PlanError(f"{path}: found no recipe {part}; expected one")
