"""Recipes that others publish: `python -m tests.published` says which are taken."""

from datetime import date
from pathlib import Path

from sparkwright.recipe.imports import read
from sparkwright.recipe.published.draft import Translated
from sparkwright.recipe.published.sources import Checkout, entries, find
from sparkwright.recipe.recipe import Recipe


def published(path: str | Path, part: str = "", day: date | None = None) -> tuple[Recipe, Translated]:
    """Return the recipe of a file, or a variant of it, alone in its folder or not."""
    path = Path(path)
    checkout = Checkout(path.parent, "there", day=day)
    name = f"{path.stem}/{part}" if part else path.stem
    return read(find(checkout, name))


__all__ = ["entries", "published"]
