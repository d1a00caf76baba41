"""A Spark in two replicas: a switch of one leaves the engine of the other alone."""

import fcntl
import json
from pathlib import Path

import pytest

from host.common import seat
from host.engine.switch.units import release_of
from tests.component.servers import until
from tests.component.switch.conftest import NEW, OLD, OTHER, Spark

NAME = "embed"


def seated(spark: Spark, *names: str) -> Path:
    """Have releases be for a second seat; return its folder."""
    place = spark.root / "seats" / NAME
    if not place.exists():
        (place / "state").mkdir(parents=True)
        for name in ("releases", "manifests", "jobs", "sockets"):
            (place / name).symlink_to(f"../../{name}")
    for name in names:
        file = spark.root / "releases" / name / "unit.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"seat": NAME}))
    return place


@pytest.fixture
def both(served: Spark) -> Spark:
    """A Spark whose second seat serves OTHER; NEW is for the first one."""
    served.release(OTHER)
    place = seated(served, OTHER)
    (place / "current").symlink_to(f"releases/{OTHER}")
    served.systemctl("start", OTHER)
    (served.state / f"wants/vllm@{OTHER}.service").symlink_to("/etc/vllm@.service")
    until(lambda: served.active(OTHER))
    served.forget()
    return served


def test_a_failed_switch_of_the_first_leaves_the_second(both: Spark) -> None:
    both.behaves(NEW, "fails")
    assert both.switch() == 1
    assert not [act for act in both.acts() if OTHER in act]
    assert both.running == [OLD, OTHER]
    assert both.boots == [OLD, OTHER]


def test_a_switch_of_the_second_leaves_the_first(both: Spark) -> None:
    """It has its own link, history and lock, and none of the weights."""
    place = seated(both, NEW)
    (both.state / f"{OLD}.failed").touch()
    with (both.root / "state/switch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert both.switch() == 0
    assert both.running == [OLD, NEW]
    assert (both.state / f"{OLD}.failed").exists()
    assert both.boots == [OLD, NEW]
    assert both.current == OLD
    assert (place / "current").readlink().name == NEW
    assert (place / "state/history").read_text().split()[1::2] == [OTHER, NEW]
    assert (place / "door/choice.map").read_text().startswith(f"first {NEW}\n")
    assert both.history == [OLD]
    assert not [act for act in both.acts() if OLD in act]


def test_what_is_no_release_any_more_is_the_first_ones(tmp_path: Path) -> None:
    """So the switch of the first one ends it, as it did before there were two."""
    assert seat.own(tmp_path, ["gone-1"]) == ["gone-1"]
    assert seat.own(tmp_path / "seats/embed", ["gone-1"]) == []
    assert release_of("switch@tiny-1.service") == "tiny-1"
