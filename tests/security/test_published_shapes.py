"""Published recipes with values of any shape: each is taken, or refused with words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkwright.common.errors import PlanError
from tests.component.repository import RECIPE
from tests.makers.vllm_project import TEXT
from tests.published import published

WHOLE = {"sparkrun": (RECIPE, ""), "vllm": (TEXT, "large")}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet="a-$'\"{}\\ \n/:=.", max_size=12),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all values inside of one."""
    found = []
    inner = value if isinstance(value, dict) else dict(enumerate(value))
    for key, each in inner.items():
        found += [(*path, key)]
        if isinstance(each, dict | list):
            found += places(each, (*path, key))
    return found


@pytest.mark.parametrize("kind", WHOLE)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150
)
@given(data=st.data())
def test_no_shape_ends_otherwise_than_with_words(tmp_path: Path, kind: str, data: Any) -> None:
    text, part = WHOLE[kind]
    content = copy.deepcopy(yaml.safe_load(text))
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(places(content)))
        owner = content
        for key in way:
            owner = owner[key]
        owner[last] = data.draw(VALUES)
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    try:
        published(path, part or "default")
    except PlanError as error:
        for problem in error.problems:
            assert problem.startswith(f"{path}:")
