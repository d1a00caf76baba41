"""Where the mods of a published recipe lie: folders with a `run.sh` that changes the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError

_ENTRY = "run.sh"
_REFERENCE = re.compile(r"(@[A-Za-z0-9_-]+/)?(mods/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)")
# Where a registry of sparkrun says which folders it has.
_REGISTRY = Path(".sparkrun", "registry.yaml")
_MOST_FOLDERS = 20


def mod_folders(recipe: Path, root: Path | None) -> list[Path]:
    """Return the folders below which a recipe's mods are looked for, in the launchers' order.

    ``root`` is that of the recipe's checkout.
    """
    folders = [recipe.parent, recipe.parent / "mods"]
    if root is not None:
        folders += [root / "mods", *_of_registry(root)]
    return list(dict.fromkeys(folders))


def _of_registry(root: Path) -> Iterator[Path]:
    """Yield the folders that a registry of sparkrun names for mods."""
    file = root / _REGISTRY
    if not file.is_file() or file.is_symlink():
        return
    try:
        listed = yaml.load(file).get("registries")
    except PlanError:
        return
    for registry in (listed if isinstance(listed, list) else [])[:_MOST_FOLDERS]:
        folder = registry.get("mods") if isinstance(registry, dict) else None
        if isinstance(folder, str) and ".." not in Path(folder).parts:
            yield root / folder.lstrip("/")


def find_mod(reference: str, folders: Sequence[Path]) -> Path | None:
    """Return the folder of ``mods/NAME``, ``NAME``, or ``@REGISTRY/NAME``; None: there is none."""
    match = _REFERENCE.fullmatch(reference.removesuffix("/"))
    if match is None:
        return None
    candidates = (folder / match["name"] for folder in folders)
    return next((each for each in candidates if (each / _ENTRY).is_file()), None)
