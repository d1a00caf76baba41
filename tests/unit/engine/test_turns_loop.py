"""The loop of turns beside a switch and a group's worker: what it takes for whose place."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.engine import places, startup
from host.engine.switch import units
from host.engine.turns import decision, loop, seat

TOTAL = 10


class Door:
    """A door at which as many requests wait as a test says; `heard` is what clients were told."""

    is_closed, held = False, 0
    haproxy = SimpleNamespace(names=dict)

    def __init__(self, place: Path) -> None:
        self.heard: list[str] = []

    def counts(self, release: str) -> tuple[int, int, int]:
        return 0, self.held, 0

    def hold(self) -> None:
        self.is_closed = True

    def let_wait(self, may: bool) -> None:
        if not may:
            self.heard.append(self.why)

    def tell(self, why: str = "", again: int = 0) -> None:
        self.why = why


class Spark:
    """A Spark whose loop looks when a test says so.

    Attributes:
        states: what systemd has of units, by name.
        acts: what systemd was told.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.acts, self.states = root, list[str](), dict[str, str]()
        self.turns, self.replicas = loop.Turns(root), dict[str, Any]()

    def declare(self, name: str, size: int, state: str = "inactive", rank: int = 0) -> None:
        place = self.root / "seats" / name
        (place / "door").mkdir(parents=True)
        (place / "current").symlink_to(f"releases/{name}-1")
        for folder in ("releases", "manifests"):
            (self.root / folder).mkdir(exist_ok=True)
            (place / folder).symlink_to(self.root / folder)
        self.lay(name, f"{name}-1")
        self.states[f"vllm@{name}-1.service"] = state
        own = {"seat": name, "rank": rank, "size": size, "grouped": bool(rank), "on_demand": True}
        more = {"pinned": False, "spare": 0, "turn": 0, "idle": None, "hold": 300}
        self.replicas[name] = own | more
        told = {"total": TOTAL, "drain": 30, "replicas": self.replicas}
        (self.root / places.MANIFEST).write_text(json.dumps(told))

    def lay(self, name: str, release: str) -> None:
        (self.root / "releases" / release).mkdir(parents=True)
        (self.root / "releases" / release / "unit.json").write_text(json.dumps({"seat": name}))

    def look(self, waits: str = "") -> dict[str, Any]:
        """Have the loop look while a request waits; return the doors by the names of replicas."""
        self.turns.look()
        doors = {name: each._door for name, each in self.turns._seats.items()}
        for name, door in doors.items():
            door.held = int(name == waits)
        self.acts.clear()
        self.turns.look()
        return doors

    def systemctl(self, verb: str, *words: str) -> str:
        if verb != "show":
            self.acts.append(f"{verb} {words[-1]}")
            return ""
        return "\n\n".join(f"Id={name}\nActiveState={each}" for name, each in self.states.items())


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    found = Spark(tmp_path / "root")
    monkeypatch.setattr(units, "systemctl", found.systemctl)
    monkeypatch.setattr(units, "reset_failed", lambda unit: None)
    monkeypatch.setattr(loop, "lack_of_room", lambda root: "")
    # A turn may be over at the next look, which comes at once.
    monkeypatch.setattr(decision, "QUIET", 0)
    monkeypatch.setattr(seat, "Door", Door)
    monkeypatch.setattr(places, "RUN", tmp_path / "run")
    places.RUN.mkdir()
    return found


def test_who_waits_beside_a_switch_is_not_refused(spark: Spark) -> None:
    """What is switched keeps its place for now, and has no second one: others fit beside it."""
    spark.declare("a", 6, "active")
    spark.declare("b", 6)
    spark.declare("c", 4)
    spark.lay("a", "a-2")
    spark.states["switch@a-2.service"] = "active"
    doors = spark.look(waits="b")
    assert (doors["b"].heard, doors.keys(), spark.acts) == ([], {"b", "c"}, [])
    assert not spark.look(waits="c")["c"].heard
    assert spark.acts == ["start vllm@c-1.service"]
    spark.turns = loop.Turns(spark.root)
    del spark.states["switch@a-2.service"]
    assert spark.look(waits="b")["a"].is_closed


def test_a_release_that_still_runs_takes_what_it_took_when_it_was_made(spark: Spark) -> None:
    """The inventory's next one, which takes less, is not there yet."""
    spark.declare("a", 3, "active")
    spark.declare("b", 5)
    (spark.root / "manifests/switch@a-1.json").write_text(json.dumps({"engine": 8}))
    assert spark.look(waits="b")["a"].is_closed
    assert not spark.acts


def test_a_worker_that_serves_has_a_place_whoever_gave_it(spark: Spark) -> None:
    """Such as one that has run since before models took turns here."""
    spark.declare("big", 8, "active", rank=1)
    spark.declare("b", 5)
    spark.look(waits="b")
    assert not spark.acts
    assert (places.RUN / "big-1.back").exists()


@pytest.mark.parametrize("served", [True, False])
def test_who_stops_an_engine_just_when_it_serves_has_stopped_no_start(
    spark: Spark, served: bool
) -> None:
    """The loop may not have seen it serve; the next request starts it at once."""
    spark.declare("a", 6)
    unit, door = "vllm@a-1.service", spark.look()["a"]
    door.held = 1
    spark.turns.look()
    since = int(time.monotonic() * 1e6) if served else 0
    for state in (f"deactivating\nActiveEnterTimestampMonotonic={since}", "inactive"):
        spark.states[unit] = state
        spark.turns.look()
    assert spark.acts == [f"start {unit}"] * (2 if served else 1)
    assert door.heard == ([] if served else ["its start failed: it was stopped"])


def test_who_was_told_to_come_back_finds_his_model_however_short_its_turn_is(spark: Spark) -> None:
    """Else each of two models would be started for nobody, in turn."""
    spark.declare("a", 6)
    spark.declare("b", 6)
    (spark.root / "seats/a/state").mkdir()
    startup.keep(spark.root / "seats/a", "a-1", 400, "serving", [])
    assert spark.look(waits="a")["a"].heard == [
        "it serves in about 400 s, and a request is held for 300 s"
    ]
    assert spark.acts == ["start vllm@a-1.service"]
    spark.states["vllm@a-1.service"] = "active"
    doors = spark.look(waits="b")
    assert not doors["a"].is_closed
    spark.turns._seats["a"].since -= seat.BACK
    spark.turns._seats["a"].used -= seat.BACK + 5
    assert spark.look(waits="b")["a"].is_closed


def test_the_job_of_a_stop_is_no_start(spark: Spark) -> None:
    """Such as of `sparkwright stop`, which stops a unit once more when it is masked."""
    spark.declare("a", 6, "active")
    unit, door = "vllm@a-1.service", spark.look()["a"]
    for state in ("inactive\nJob=7", "inactive"):
        spark.states[unit] = state
        spark.turns.look()
    door.held = 1
    spark.turns.look()
    assert (spark.acts, door.heard) == ([f"start {unit}"], [])
