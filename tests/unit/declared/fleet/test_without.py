"""A fleet without a Spark: its group serves on the others."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet import file
from sparkwright.declared.fleet.without import without
from tests.makers.gateway import fleet_of


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have three recipes."""
    monkeypatch.setattr(file, "recipe_names", lambda: ["chatty", "big", "lab-tiny"])


FOUR = """\
sparks: {a: {}, b: {}, c: {}, d: {}, e: {}}
gateway: {spark: a}
replicas:
  four: {recipe: big, sparks: [a, b, c, d]}
  one: {recipe: chatty, sparks: [e]}
"""


@pytest.mark.parametrize(
    ("lost", "left"), [(["c"], ["a", "b"]), (["a"], ["b", "c"]), (["d", "b", "c"], ["a"])]
)
def test_a_group_without_some_is_the_largest_that_its_recipe_allows(
    tmp_path: Path, lost: list[str], left: list[str]
) -> None:
    fleet = without(fleet_of(tmp_path, FOUR), lost, {"big": [1, 2, 4], "chatty": [1]})
    assert fleet.replicas["four"].sparks == left
    assert fleet.replicas["one"].sparks == ["e"]
    assert bool(fleet.gateway) == ("a" not in lost)
    assert not {*lost} & {*fleet.sparks}
    assert fleet.served("e", "one").get("whole") is None
    assert fleet.served(left[0], "four")["whole"] == [*"abcd"]
    # The others are idle, and are still there to be told so.
    assert len(fleet.sparks) == 5 - len(lost)


def test_who_takes_turns_with_a_group(tmp_path: Path) -> None:
    """A model of the lost Spark alone is gone with it; two groups have the same Sparks still."""
    text = FOUR.replace("[a, b, c, d]", "[a, b, c, d], on_demand: true")
    text += "  more: {recipe: lab-tiny, sparks: [a, b, c, d], port: 8001, on_demand: true}\n"
    text += "  own: {recipe: chatty, sparks: [d], port: 8002}\n"
    counts = {"big": [2, 3, 4], "lab-tiny": [2, 4], "chatty": [1, 2]}
    fleet = without(fleet_of(tmp_path, text), ["d"], counts)
    assert {name: each.sparks for name, each in fleet.replicas.items()} == {
        **{"four": ["a", "b"], "more": ["a", "b"], "one": ["e"]}
    }
    # Keys and group data may name it all the same.
    assert "own" in fleet.whole
    counts |= {"lab-tiny": [3, 4], "big": [2, 4]}
    with pytest.raises(PlanError, match="found 3 of the 4 Sparks of four left; expected 4, as"):
        without(fleet_of(tmp_path, text), ["d"], counts)


@pytest.mark.parametrize(
    ("lost", "problem"),
    [("ad", "found 2 of the 4 Sparks of four left; expected 3 or 4"), ("e", "found e; expected a")],
)
def test_a_group_without_too_many_is_refused(tmp_path: Path, lost: str, problem: str) -> None:
    fleet = fleet_of(tmp_path, FOUR)
    with pytest.raises(PlanError, match=problem):
        without(fleet, [*lost], {"big": [3, 4], "chatty": [1]})
