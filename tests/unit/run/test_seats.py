"""The target of a Spark in two replicas: one for each, and what the whole Spark has."""

from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.placed import Place
from sparkwright.run.spark import SparkTarget
from tests.makers.release import lock, recipe

INVENTORY = """\
sparks:
  a: {hardware: lab}
  b: {hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [a]}
  other: {recipe: lab-tiny, sparks: [b]}
  embed: {recipe: lab-built, sparks: [a], port: 8001, api_key: none}
"""


def target(tmp_path: Path, **more: Any) -> SparkTarget:
    path = tmp_path / "sparks.yaml"
    path.write_text(INVENTORY)
    served = {"replica": "chat", "recipe": "lab-tiny", "ranks": ["a"], "rank": 0, "port": 8000}
    data = {"spark": "a", "hardware": "lab", "fleet": str(path), "replicas": ["chat", "embed"]}
    return SparkTarget.of(data | served | more)


def test_the_first_has_the_sparks_own_place(tmp_path: Path) -> None:
    own = target(tmp_path)
    first, second = own.seats
    assert first is own
    assert (first.seat, first.place, first.port) == ("", "/opt/qwen36", 8000)
    assert (second.seat, second.place, second.port) == ("embed", "/opt/qwen36/seats/embed", 8001)
    assert (second.recipe_name, second.rank, second.api_key) == ("lab-built", 0, "none")
    assert second.seats[0].replica == "chat"
    assert second.may_listen.doors == first.may_listen.doors == (8000, 8001)
    # A run may be about one.
    assert [each.replica for each in own.chosen_seats] == ["chat", "embed"]
    (only,) = target(tmp_path, chosen=["embed"]).chosen_seats
    assert only.seat == "embed"
    # A Spark in one replica has nothing of it.
    alone = target(tmp_path, replicas=None)
    assert alone.seats == alone.chosen_seats == (alone,)
    assert alone.may_listen.doors == (8000,)


def test_what_a_release_alone_has_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one's has its seat, by which the Spark knows whose it is."""
    monkeypatch.setattr("sparkwright.run.spark.recipe_of", lambda _: recipe())
    first, second = (each.release_by(lock()) for each in target(tmp_path).seats)
    alone = target(tmp_path, replicas=None).release_by(lock())
    assert alone
    assert first
    assert second
    assert first.id == alone.id
    assert second.place == Place("/opt/qwen36", "embed") == "/opt/qwen36/seats/embed"
