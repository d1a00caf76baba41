"""YAML files that cannot be read say where and why."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.yaml import load
from sparkwright.common.yaml.lines import lines_of


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text)) == {}


def test_values_keep_their_types(tmp_path: Path) -> None:
    path = written(tmp_path, "a: {b: [1, 0.5, yes, null, text]}\n")
    assert load(path) == {"a": {"b": [1, 0.5, True, None, "text"]}}


def test_a_merge_is_no_duplicate(tmp_path: Path) -> None:
    path = written(tmp_path, "x: {<<: {a: 1}, a: 2}\ny: {<<: {a: 1}, b: 3}\n")
    assert load(path)["x"] == {"a": 2}
    assert load(path)["y"] == {"a": 1, "b": 3}


def test_all_duplicates_are_listed_with_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "sparks:\n  a: 1\n  b: 2\n  a: 3\nsparks: 4\n")
    with pytest.raises(PlanError) as caught:
        load(path)
    assert sorted(caught.value.problems) == [
        f"{path}:4: a: found twice; expected once",
        f"{path}:5: sparks: found twice; expected once",
    ]


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a: 1\nb: [1, 2\n", ":2:", "a [ without its ]"),
        ("a: 1\n\tb: 2\n", ":2:", "a tab; expected spaces"),
        ("a: 1\nb: *nobody\n", ":2:", "the alias *nobody; expected the value itself"),
        ("a: 1\nb: &x {c: 1}\n", ":2:", "the anchor &x; expected the value itself"),
        ("a:\n  " + "[" * 40, ":2:", "expected at most 32 levels"),
        ("a: 1\nb: " + "9" * 101, ":2:", "a number of 101 characters; expected at most 100"),
        ("a: " + "x" * 2**20, ":", "found more than 1,048,576 bytes"),
        ("a: !!python/object/apply:os.system [id]\n", ":1:", "python/object"),
        ("a: 1\n---\nb: 2\n", ":2:", "a second document"),
        ("- a\n- b\n", ":", "found a list; expected a mapping"),
        ("just text\n", ":", "found text without a key; expected a mapping"),
        (b"a: \xff\n", ":", "cannot be read as UTF-8 text"),
        (b"a: \x00\n", ":1:", "the control character #x00"),
        ("? [a]\n: 1\n", ":1:", "a list or a mapping as a key"),
        ("a: 2026-99-99\n", ":1:", "found 2026-99-99, which cannot be"),
    ],
)
def test_what_is_no_mapping_of_yaml(
    tmp_path: Path, text: str | bytes, place: str, found: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}{place}")
    assert found in problem


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found no such file; expected a YAML file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(PlanError, match="found a folder; expected a YAML file"):
        load(tmp_path)


def test_path_that_cannot_be():
    with pytest.raises(PlanError, match="cannot be read as UTF-8 text"):
        load(Path("a\0b.yaml"))


@pytest.mark.parametrize(
    ("text", "problem", "placed"),
    [
        ("a:\n  b.c: {d: 1}\n", "a.b.c.d: found 1; expected 2", "2: a.b.c.d: found 1; expected 2"),
        (
            "a:\n- 1\n- on\n",
            "a[1]: found true; x",
            "3: a[1]: found on, which YAML reads as true; x",
        ),
        ("a:\n- 1\n", "a[7]: found nothing; x", "1: a[7]: found nothing; x"),
        ("a: {}\n", "a.b: found nothing; x", "1: a.b: found nothing; x"),
        ("a: 1\n", "b: found nothing; x", " b: found nothing; x"),
        ("a: b: c\n", "a: found 1; x", " a: found 1; x"),
        (f"a: {'x' * 2**20}\n", "a: found 1; x", " a: found 1; x"),
    ],
)
def test_a_problem_names_the_line_of_its_value(
    tmp_path: Path, text: str, problem: str, placed: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as caught, lines_of(path):
        raise PlanError(f"{path}: {problem}", f"other.yaml: {problem}")
    assert caught.value.problems == (f"{path}:{placed}", f"other.yaml: {problem}")
