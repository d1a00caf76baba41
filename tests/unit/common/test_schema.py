"""Models' errors are sentences: file, key, found, expected."""

from datetime import date

import pytest
from pydantic import Field

from sparkwright.common.schema import Model, Name, Text, parse
from tests.makers.refused import refused


class Leaf(Model):
    size: int = Field(ge=1, description="bytes, a whole number above 0")
    label: Text | None = Field(default=None, description="a label")
    bare: bool = False


class Tree(Model):
    leaves: dict[Name, Leaf] = Field(description="a mapping of leaves")
    words: list[str] = Field(default_factory=list, max_length=2, description="up to two words")
    root: Leaf | None = None


def problems(data: object) -> tuple[str, ...]:
    return refused(parse, Tree, data, "f.yaml")


def test_everything_wrong_is_listed_at_once() -> None:
    data = {
        "leaves": {
            "a": {"size": "big"},
            "b": {"size": 0, "lable": "x"},
            "c": {},
            "d": None,
            "Bad Name": {"size": 1},
            "e": {"size": 1, "label": "two\nlines"},
            "f": {"size": 1, "bare": "yes"},
        },
        "words": ["a", 1],
        "root": [],
        "tree": 1,
    }
    assert problems(data) == (
        'f.yaml: leaves.a.size: found "big"; expected bytes, a whole number above 0',
        "f.yaml: leaves.b.size: found 0; expected bytes, a whole number above 0",
        "f.yaml: leaves.b.lable: found an unknown key; "
        "did you mean 'label'? Expected one of bare, label, size",
        "f.yaml: leaves.c.size: found nothing; expected bytes, a whole number above 0",
        "f.yaml: leaves.d: found null; expected a mapping of leaves",
        "f.yaml: leaves.Bad Name: found \"Bad Name\"; expected a name of a-z, 0-9, '.' and '-', "
        "at most 63 long, that starts and ends with a letter or digit",
        'f.yaml: leaves.e.label: found "two\\nlines"; expected printable text on one line',
        'f.yaml: leaves.f.bare: found "yes"; expected true or false',
        "f.yaml: words[1]: found 1; expected up to two words (as text: in quotes)",
        "f.yaml: root: found []; expected a mapping (key: value)",
        "f.yaml: tree: found an unknown key; expected one of leaves, root, words",
    )


@pytest.mark.parametrize("value", [1.0, True, "1", None, date(2026, 1, 2)])
def test_nothing_is_converted(value: object) -> None:
    (problem,) = problems({"leaves": {"a": {"size": value}}})
    assert problem.startswith("f.yaml: leaves.a.size: found")


@pytest.mark.parametrize(
    "name",
    [
        *("", "A", "a_b", "-a", "a-", ".a", "a.", "a/b", "..", "a b", "a;id", "$(id)", "a\n", "ä"),
        "a" * 64,
    ],
)
def test_names_that_are_not(name: str) -> None:
    assert "expected a name of a-z" in problems({"leaves": {name: {"size": 1}}})[0]
