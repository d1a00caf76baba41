"""Combinations that are known not to work."""

from collections.abc import Iterator

from deploys.plan.recipe import Recipe


def problems(recipe: Recipe) -> Iterator[str]:
    """Say what cannot be, as ``KEY: found X; expected Y``."""
    yield from ()
