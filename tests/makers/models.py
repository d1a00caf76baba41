"""A copy of what a host or a file says, with some of it changed."""

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M")


def changed(model: M, **changes: Any) -> M:
    if isinstance(model, BaseModel):
        return model.model_copy(update=changes)
    return replace(model, **changes)  # type: ignore[type-var]


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Return a text with other words in places that it must have."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text
