"""A Spark of a group that does not come: who says so, and what is offered."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import Finding, error
from sparkwright.plan.memory.plan import Load
from sparkwright.run import spark
from sparkwright.run.spark import SparkTarget
from tests.makers.release import lock, recipe
from tests.makers.status import UNIT

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


def offer(monkeypatch: pytest.MonkeyPatch, lost: list[str], sparks: list[int], fits: int) -> str:
    """Return what is offered to four Sparks, of which at least `fits` hold the model."""

    def found(load: Load, *_: Any) -> list[Finding]:
        return [] if load.sparks >= fits else [error("too large", "None")]

    monkeypatch.setattr(spark, "memory_findings", found)
    monkeypatch.setattr(spark, "recipe_of", lambda _: recipe(sparks=sparks))
    data = {"recipe": "try", "replica": "chat", "ranks": [*"abcd"], "rank": 1, "hardware": "gb10"}
    return SparkTarget.of(data | {"fleet": str(Path("none.yaml"))}).offer(lost)


def test_what_fits_on_the_others_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    said = offer(monkeypatch, ["a"], [1, 2, 4], fits=2)
    assert said.startswith("Until then b and c can serve chat: ")
    assert said.endswith("apply --data without=a")
    said = offer(monkeypatch, ["a", "c", "d"], [1, 2, 4], fits=1)
    assert said.startswith("Until then b can serve chat: ")
    assert said.endswith("apply --data without=a,c,d")


@pytest.mark.parametrize(("sparks", "fits"), [([1, 2, 4], 4), ([4], 1)])
def test_what_does_not_fit_is_not(
    monkeypatch: pytest.MonkeyPatch, sparks: list[int], fits: int
) -> None:
    assert offer(monkeypatch, ["a"], sparks, fits) == ""


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
