"""A Spark of a group that does not come: who says so, and what is offered."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import Finding, error
from sparkwright.declared.fleet import file
from sparkwright.declared.recipe.values import COUNTS
from sparkwright.plan.memory.plan import Load
from sparkwright.run import spark
from sparkwright.run.spark import SparkTarget
from tests.makers.release import lock, recipe
from tests.makers.status import UNIT

FOUR = """\
sparks: {a: {}, b: {}, c: {}, d: {}}
replicas:
  chat: {recipe: try, sparks: [a, b, c, d], on_demand: true}
  more: {recipe: other, sparks: [a, b, c, d], port: 8001, on_demand: true}
"""
Offered = Callable[..., str]

MISSING = "missing for 15 min: {} at 10.0.0.3: no answer"


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        ("serving", []),
        ("waiting for c at 10.0.0.3: no answer", []),
        (MISSING.format("c"), ["c"]),
        (f"{MISSING.format('c')}; {MISSING.format('b')}", ["b", "c"]),
        (f"{MISSING.format('c')}; waiting for d at 10.0.0.4: no answer", ["c"]),
        # A Spark may say anything.
        (f"{MISSING.format('c; rm -rf /')}; {MISSING.format('z')}", []),
    ],
)
def test_only_sparks_of_the_group_are_missing(status: str, missing: list[str]) -> None:
    assert UNIT.model_copy(update={"status": status}).missing("abcd") == missing


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Offered:
    """Return what is offered to a group of four whose recipes are for some numbers of Sparks."""
    monkeypatch.setattr(file, "recipe_names", lambda: ["try", "other"])
    path = tmp_path / "sparks.yaml"
    path.write_text(FOUR)

    def offered(
        lost: str, sparks: list[int], fits: int = 1, other: Sequence[int] = COUNTS, **more: Any
    ) -> str:
        """Return it; at least `fits` Sparks hold the model."""

        def found(load: Load, *_: Any) -> list[Finding]:
            return [] if load.sparks >= fits else [error("too large", "None")]

        recipes = {"try": recipe(sparks=sparks), "other": recipe(sparks=[*other])}
        monkeypatch.setattr(spark, "memory_findings", found)
        monkeypatch.setattr(spark, "recipe_of", recipes.__getitem__)
        data = {"recipe": "try", "replica": "chat", "ranks": [*"abcd"], "rank": 1}
        data |= {"hardware": "gb10", "fleet": str(path), **more}
        return SparkTarget.of(data).offer([*lost])

    return offered


def test_what_fits_on_the_others_is_offered(offer: Offered) -> None:
    said = offer("a", [1, 2, 4], fits=2)
    assert said.startswith("Until then b and c can serve chat: ")
    assert said.endswith("apply --data without=a")
    said = offer("acd", [1, 2, 4])
    assert said.startswith("Until then b can serve chat: ")
    assert said.endswith("apply --data without=a,c,d")


@pytest.mark.parametrize(("sparks", "fits"), [([1, 2, 4], 4), ([4], 1)])
def test_what_does_not_fit_is_not(offer: Offered, sparks: list[int], fits: int) -> None:
    assert offer("a", sparks, fits) == ""


def test_what_is_offered_is_what_the_command_does(offer: Offered) -> None:
    """Which keeps groups on the same Sparks together."""
    assert offer("a", [2, 3, 4], other=[2, 4]).startswith("Until then b and c can serve chat: ")
    assert offer("a", [3, 4], other=[2, 4]) == ""


def test_who_is_lost_already_is_still_lost(offer: Offered) -> None:
    """A head that is lost, and a worker: the run without the one finds out about the other."""
    left = {"ranks": [*"bc"], "whole": [*"abcd"], "rank": 0, "without": "a"}
    said = offer("c", [1, 2, 4], **left)
    assert said.startswith("Until then b and d can serve chat: ")
    assert said.endswith("apply --data without=a,c")


def test_a_release_of_those_who_are_left_has_their_own_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark, "recipe_of", lambda _: recipe(sparks=[2, 4]))
    data = {"recipe": "try", "ranks": ["d", "b"], "rank": 0, "hardware": "lab", "spark": "d"}
    made = [SparkTarget.of(data | more).release_by(lock()) for more in ({}, {"whole": [*"abcd"]})]
    pair, left = (json.loads(each.files["unit.json"]) for each in made if each)
    assert [first for first, _ in pair["fabric"]] == ["192.168.100.12", "192.168.100.11"]
    assert [first for first, _ in left["fabric"]] == ["192.168.100.14", "192.168.100.12"]
    assert made[1]
    assert "--master-addr 192.168.100.14" in made[1].files["run"]
