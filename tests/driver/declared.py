"""What the inventory and the recipes of the lab declare, changed for a while."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.lab.state import FLEET, PROJECT
from tests.makers.models import replaced

RECIPES = PROJECT / "files/recipes"
Change = tuple[str, str]
# vLLM refuses to start with this one.
BROKEN: Change = ("  seed: 0", "  unknown-flag: 0")


@contextmanager
def edited(file: Path, edit: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    text = file.read_text()
    content = yaml.safe_load(text)
    edit(content)
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    try:
        yield
    finally:
        file.write_text(text)


def replica(**changes: object) -> AbstractContextManager[None]:
    """Let the inventory say something else of its first replica for a while."""
    return edited(FLEET, lambda fleet: fleet["replicas"]["lab1"].update(changes))


def seed(number: int) -> Change:
    """Return a change that alters no greedy answer."""
    return "  seed: 0", f"  seed: {number}"


@contextmanager
def recipe(name: str, *changes: Change, base: str = "lab-tiny") -> Iterator[str]:
    """Have a copy of a recipe with some changes, as recipe lab-NAME, until the block ends."""
    file = RECIPES / f"lab-{name}.yaml"
    file.write_text(replaced((RECIPES / f"{base}.yaml").read_text(), *changes))
    try:
        yield file.stem
    finally:
        file.unlink()


@contextmanager
def changed(name: str, *changes: Change) -> Iterator[None]:
    with recipe(name, *changes) as stem, replica(recipe=stem):
        yield
