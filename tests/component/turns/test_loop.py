"""The loop of turns at real doors: who waits is served; systemd and engines are stand-ins."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from host.door import door
from host.engine import places
from host.engine.switch import units
from host.engine.turns import loop
from tests.component.door.running import (
    PATH,
    Asked,
    FakeServer,
    Running,
    haproxy,
    opened,
    stream,
    waiting,
)
from tests.component.servers import serving, until
from tests.makers.door import KEY

pytestmark = haproxy

HOLD, READY = 300, 0.3


class Spark:
    """Two models, of which the memory holds one, behind their doors, and their units."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.places = {"a": root, "b": root / "seats/b"}
        self.live: dict[str, tuple[float, ExitStack]] = {}
        self.failing: set[str] = set()
        self.masked: set[str] = set()
        self.switches: list[str] = []
        self.log: list[str] = []
        self.doors: dict[str, Running] = {}
        for name, place in self.places.items():
            folder = root / "releases" / f"{name}-1"
            folder.mkdir(parents=True)
            seat = "" if place == root else name
            (folder / "unit.json").write_text(json.dumps({"start_timeout": 60, "seat": seat}))
            place.mkdir(parents=True, exist_ok=True)
            if seat:
                (place / "releases").symlink_to(root / "releases")
                (place / "manifests").symlink_to(root / "manifests")
            (place / "current").symlink_to(f"releases/{name}-1")
            self.doors[name] = stack.enter_context(opened(place, keys=[KEY], hold_seconds=HOLD))
        (root / "manifests").mkdir()
        self.declare()

    def declare(self, **more) -> None:
        one = {"size": 6, "spare": 1, "turn": 2, "idle": None, "grouped": False}
        one |= {"on_demand": True, "pinned": False, "hold": HOLD} | more
        replicas = {"a": {**one, "seat": ""}, "b": {**one, "seat": "b"}}
        told = {"total": 10, "drain": 30, "replicas": replicas}
        (self.root / places.MANIFEST).write_text(json.dumps(told))

    def systemctl(self, verb: str, *words: str) -> str:
        names = [each for each in words if not each.startswith("-")]
        if verb == "show":
            return "\n".join(self._shown(each) for each in dict.fromkeys(names) if "*" not in each)
        name = names[0].removeprefix("vllm@").partition("-")[0]
        self.log.append(f"{verb} {name}")
        if verb == "start":
            self.start(name)
        elif verb == "stop":
            self.live.pop(name)[1].close()
        return ""

    def start(self, name: str) -> None:
        engine = ExitStack()
        if name not in self.failing:
            server = FakeServer(self.places[name], f"{name}-1")
            server.healthy = False
            engine.enter_context(serving(server))
            threading.Timer(READY, setattr, (server, "healthy", True)).start()
        self.live[name] = time.monotonic(), engine

    def _shown(self, unit: str) -> str:
        name = unit.removeprefix("vllm@").partition("-")[0]
        at, _ = self.live.get(name, (0.0, None))
        active = "activating" if time.monotonic() < at + READY else "active"
        if name in self.failing and name in self.live and active == "active":
            self.live.pop(name)
        if name not in self.live:
            active = "failed" if name in self.failing else "inactive"
        load = "masked" if name in self.masked else "loaded"
        said = "vLLM refuses its command line" if name in self.failing else ""
        return f"Id={unit}\nActiveState={active}\nLoadState={load}\nStatusText={said}\n"


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    with ExitStack() as stack:
        spark = Spark(tmp_path / "root", stack)
        monkeypatch.setattr(units, "systemctl", spark.systemctl)
        monkeypatch.setattr(units, "reset_failed", lambda _: None)
        monkeypatch.setattr(loop, "Door", lambda place: door.Door(place, place / "run"))
        monkeypatch.setattr(places, "RUN", tmp_path / "run")
        turns, over = loop.Turns(spark.root), threading.Event()

        def run() -> None:
            while not over.wait(0.1):
                turns.look()

        thread = threading.Thread(target=run)
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        yield spark
        for _, engine in spark.live.values():
            engine.close()


def test_a_request_starts_its_model_and_cuts_no_answer(spark: Spark) -> None:
    a, b = spark.doors["a"], spark.doors["b"]
    assert a.status("POST", PATH) == 200
    assert spark.log == ["start a"]
    asked = Asked(b)
    with stream(a, 30, 0.1) as answer:
        asked.post(3)
        until(lambda: a.door.is_closed)
        # Who has changed its files lets others look once haproxy knows it, too.
        a.door.busy("a-1")
        # What comes for the first model now waits for its next turn.
        again = Asked(a)
        again.post()
        assert len(answer.read()) == 30 * len("a-1")
    assert asked.all() == ["b-1"] * 3
    assert again.all() == ["a-1"]
    assert spark.log == ["start a", "stop a", "start b", "stop b", "start a"]
    told = json.loads((places.RUN / "turns.json").read_text())
    assert (told["a"]["starts"], told["b"]["starts"]) == (2, 1)


def test_a_model_that_does_not_start_is_refused_with_the_reason(spark: Spark) -> None:
    spark.failing.add("a")
    a = Asked(spark.doors["a"])
    a.post()
    assert a.all() == ["503"]
    assert "its start failed: vLLM refuses its command line" in str(a.answers)
    # Not for each request anew.
    assert spark.doors["a"].status("POST", PATH) == 503
    assert spark.log == ["start a"]


def test_one_that_its_owner_has_stopped_stays_so(spark: Spark) -> None:
    spark.masked.add("a")
    status, said, head = spark.doors["a"].ask("POST", PATH)
    assert (status, head["Retry-After"]) == (503, "300")
    assert "it is stopped, until its owner starts it" in said["error"]["message"]
    assert not spark.log


def test_who_looks_anew_goes_on_from_what_is(spark: Spark) -> None:
    """Somebody has started one by hand, and closed its door; nobody waits: it is let be."""
    spark.start("a")
    spark.doors["a"].door.offer("a-1")
    spark.doors["a"].door.hold()
    assert spark.doors["a"].status("POST", PATH) == 200
    b = Asked(spark.doors["b"])
    b.post()
    waiting(spark.doors["b"], 1)
    assert b.all() == ["b-1"]
    assert spark.log == ["stop a", "start b"]
