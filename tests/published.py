"""A recipe that others publish, as a file has it."""

from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.published.sources import Checkout, entries
from sparkwright.declared.recipe.published.translated import Translated


def published(path: str | Path, part: str = "default") -> Translated:
    """Return the recipe of a file, or a variant of it, as one of ours.

    Raises:
        PlanError: It is none, or cannot be taken.
    """
    path = Path(path)
    for entry in entries(Checkout(path.parent, "there")):
        is_refused = isinstance(entry.document, PlanError)
        same = str(path) in str(entry.document) if is_refused else entry.document.path == path
        if same and entry.part in ("", part):
            return entry.translated()
    raise PlanError(f"{path}: found no recipe {part}; expected one")
