"""The way back, on fake hosts."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.engine import operations as serve
from sparkwright.upkeep.rollback import deploy
from sparkwright.upkeep.rollback.deploy import rollback, way_back
from tests.makers.engine import SETTINGS, SETTLED, spark
from tests.unit.driven import Driven


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The last lines of a run."""
    lines: list[str] = []
    monkeypatch.setattr(serve, "conclude", lambda name, text: lines.append(f"{name}{text}"))
    monkeypatch.setattr(serve, "switch_settings", lambda own: SETTINGS)
    return lines


HISTORY: dict[str, Any] = {
    "served": ["old", "new"],
    "current": "new",
    "installed": {"old": 1, "new": 1},
    "under_way": [],
}


def run(
    report: Mapping[str, object] | None = None, recipe: str = "try", **history: object
) -> tuple[Any, Driven]:
    driven = spark(SETTLED, report, size=1, history=HISTORY | history)
    own = SimpleNamespace(place="/opt/x", spark="a", replica="chat", peers=[], recipe_name=recipe)
    return driven.run(rollback, own=own), driven


def test_one_that_does_not_serve() -> None:
    report = {"phase": "failed", "message": "the weights are gone", "restored": True}
    result, driven = run(report)
    assert not result.did_succeed()
    assert "old does not serve: the weights are gone" in driven.scripts()[-1]


@pytest.mark.parametrize(("recipe", "is_named"), [("try", True), ("old", False)])
def test_what_the_inventory_asks_for_is_named_where_it_is_another(
    monkeypatch: pytest.MonkeyPatch, recipe: str, is_named: bool
) -> None:
    notices: list[str] = []
    monkeypatch.setattr(deploy, "notice", notices.append)
    run(recipe=recipe, served=["old-1234abcd", "new"])
    assert notices[-1].startswith("It goes back to old-1234abcd")
    assert ("The inventory asks for try" in notices[-1]) is is_named
    assert ("change `recipe:` there" in notices[-1]) is is_named


def test_without_a_release_before_it_ends_before_anything_is_placed() -> None:
    driven = spark(SETTLED, history=HISTORY | {"served": ["new"]})
    assert not driven.run(way_back, root="/opt/x", peers=[]).did_succeed()
    told = "There is nothing to go back to on a"
    assert told in driven.scripts()[-1]
    assert told in run(served=["new"])[1].scripts()[-1]
    assert spark(SETTLED, history=HISTORY).run(way_back, root="/opt/x", peers=[]).did_succeed()
