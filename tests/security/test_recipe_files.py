"""Files of a stranger that grow as they are read, or are no YAML: each is refused with its line."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.recipe.loader import load_recipe


def bomb(levels: int) -> str:
    lines = ["b0: &b0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (bomb(9), 1, "found the anchor &b0; expected the value itself: aliases are not supported"),
        ("a: 1\nhf-overrides: *b", 2, "found the alias *b; expected"),
        ("a: &a {b: 1}\nc: {<<: [*a, *a]}", 1, "found the anchor &a; expected"),
        ("a: &a [*a]", 1, "found the anchor &a; expected"),
        ("\n".join(f"{' ' * n}k:" for n in range(40)), 32, "expected at most 32 levels"),
        ("a: " + "[" * 200_000, 1, "expected at most 32 levels"),
        ("a: " + "{a: " * 100_000, 1, "expected at most 32 levels"),
        ("? " * 100_000, 1, "expected at most 32 levels"),
        ("- " * 100_000, 1, "expected at most 32 levels"),
        ("a: 1\nb: " + "9" * 300_000, 2, "a number of 300000 characters; expected at most 100"),
        ("a: 1\nb: 0." + "1" * 300_000, 2, "a number of 300002 characters; expected at most 100"),
        ("a: 0x" + "f" * 100_000, 1, "a number of 100002 characters"),
        ("a: " + "x" * 2**20, None, "found more than 1,048,576 bytes"),
        ("é" * 2**20, None, "found more than 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:24],
)
@pytest.mark.parametrize("read", ["recipe", "inventory"])
def test_a_file_that_grows_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int | None, told: str, read: str
) -> None:
    file = tmp_path / "grows.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        load_recipe(str(file)) if read == "recipe" else load_fleet(file)
    (problem,) = raised.value.problems
    assert problem.startswith(f"{file}:{line}: found " if line else f"{file}: found ")
    assert told in problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet="ab:-?[]{}&*!<>,'\"|#%@0159.\n \t", max_size=200))
def test_no_text_ends_otherwise_than_with_a_problem(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        load_recipe(str(file))
    assert all(problem.startswith(str(file)) for problem in raised.value.problems)
