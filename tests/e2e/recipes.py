"""Recipes that differ a little from the lab's own: each is another release."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.conftest import PROJECT

FOLDER = PROJECT / "files/recipes"
Change = tuple[str, str]
# vLLM refuses to start with this one.
BROKEN: Change = ("  seed: 0", "  no-such-flag: 0")


def seed(number: int) -> Change:
    """Return a change that alters no greedy answer."""
    return "  seed: 0", f"  seed: {number}"


@contextmanager
def recipe(name: str, *changes: Change) -> Iterator[str]:
    """Have a copy of lab-tiny with some changes, as recipe lab-NAME, until the block ends."""
    file = FOLDER / f"lab-{name}.yaml"
    text = (FOLDER / "lab-tiny.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    try:
        yield file.stem
    finally:
        file.unlink()
