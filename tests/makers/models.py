"""What a host says, with some of it changed."""

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M")


def changed(model: M, **changes: Any) -> M:
    if isinstance(model, BaseModel):
        return model.model_copy(update=changes)
    return replace(model, **changes)  # type: ignore[type-var]
