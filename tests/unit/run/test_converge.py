"""What `converge` reads of a Spark, in one command; the target of a Spark in two replicas."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyinfra.api.deploy import add_deploy
from pyinfra.api.state import StateStage

from sparkwright import deploy
from sparkwright.artifacts.weights.deploy import copied
from sparkwright.run import spark as run_spark
from sparkwright.run import target as run_target
from sparkwright.run.spark import SparkTarget
from tests.makers.door import NO_DOOR
from tests.makers.engine import engines
from tests.makers.fabric import spark as fabric_spark
from tests.makers.preflight import SPARK
from tests.makers.release import lock, recipe
from tests.makers.updates import system
from tests.unit.driven import Driven, fake_host, placed

INVENTORY = """\
sparks:
  a: {hardware: lab}
  b: {hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [a]}
  other: {recipe: lab-tiny, sparks: [b]}
  embed: {recipe: lab-built, sparks: [a], port: 8001, api_key: none}
"""
FOUND = {
    "machine": lambda **_: SPARK | {"clock": int(time.time())},
    "firewall": {
        "installed": False,
        "active": None,
        "at_boot": False,
        "status": "",
        "rules": [],
        "ssh": [22],
        "turned_on": False,
        "other": None,
        "published": [],
    },
    "machine.runtime": {
        "toolkit": "1.17",
        "repository": True,
        "runtimes": ["nvidia"],
        "containers": [],
        "daemon_json": "",
        "proxies": [],
    },
    "machine.memory": {"total": 8 << 30, "available": 0, "handover": 0, "gpu_free": None}
    | {"engine": None, "beside": 0, "reserved": 0},
    "machine.gpu_proof": {"versions": ["1"], "proved": ["1"]},
    "engines": lambda root, release="", **_: (
        engines((release, "active"), enabled=release, current=release) | {"last": release}
    ),
    "machine.watchdog": {"device": True, "offered": True, "set_by": "", "seconds": 0},
    "placed": lambda units=(), **_: placed(units=dict.fromkeys(units, "loaded active enabled 1")),
    "artifacts.compiled": {"size": None, "current": ""},
    "artifacts.environment": {"requirements": None},
    "artifacts.weights": lambda root, folders: {
        "folders": {name: {"manifest": None, "files": {}} for name in folders}
    },
    "docker.image": {"image": None, "fault": ""},
    "door": NO_DOOR,
    "updates": system(),
    "sockets.exporter": {"holder": None, "installed": False, "ours": False},
}


SERVES = {"replica": "chat", "recipe": "lab-tiny", "rank": 0, "port": 8000, "api_key": "none"}
ALONE = SERVES | {"ranks": ["a"], "spark": "a", "hardware": "lab"}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for step in ("start_session", "announce"):
        monkeypatch.setattr(deploy, step, lambda **_: None)
    monkeypatch.setattr(run_spark, "recipe_of", lambda _: recipe())
    monkeypatch.setattr(run_target, "ensure_lock", lambda *_, **__: lock())
    return tmp_path / "sparks.yaml"


def plan(own: Driven) -> None:
    with own.current() as host:
        host.state.config.PARALLEL = 1  # one Spark plans after the other
        host.state.set_stage(StateStage.Prepare)
        for step in (deploy.start, deploy.converge):
            add_deploy(host.state, step)


@pytest.mark.parametrize(
    "more",
    [
        ALONE,
        ALONE | {"replicas": ["chat", "embed"]},
        ALONE | {"replicas": ["chat", "embed"], "on_demand": True},
        {"spark": "a", "hardware": "lab"},
        ALONE | {"notify": "https://ntfy.lan/sparks"},
    ],
    ids=["one", "two", "in turn", "idle", "notified"],
)
def test_all_is_asked_beforehand(more: dict[str, Any], fleet: Path) -> None:
    fleet.write_text(INVENTORY)
    own = fake_host(state=FOUND, fleet=str(fleet), **more)
    plan(own)
    (asked,) = own.asked
    assert {"machine", "placed", "engines", "firewall"} <= {*asked}


@pytest.mark.parametrize("number", [2, 3, 4, 8])
def test_so_is_what_the_others_of_a_group_read(fleet: Path, number: int) -> None:
    names = list("abcdefgh"[:number])
    declared = {"sparks": names, "recipe": "lab-tiny"}
    known: dict[str, dict[str, str]] = {name: {} for name in names}
    fleet.write_text(yaml.safe_dump({"sparks": known, "replicas": {"chat": declared}}))
    sparks = []
    for rank, name in enumerate(names):
        found = FOUND | {
            "network.fabric": fabric_spark(rank).model_dump(mode="json"),
            "network.neighbors": {"heard": {}},
            "network.link": {"state": "fit", "certificate": "x"},
            "machine": SPARK | {"clock": int(time.time()), "machine": name},
        }
        data = SERVES | {"ranks": names, "rank": rank, "spark": name, "hardware": "gb10"}
        spark = fake_host(state=found, fleet=str(fleet), **data)
        sparks.append(replace(spark, name=f"@fake/{name}"))
    head, *workers = sparks
    head.peers = tuple(workers)
    plan(head)
    # Who answers at the ports is asked once it is known who could.
    assert [len(spark.asked) for spark in sparks] == [1 if number == 2 else 2] * number


SHARED = """\
sparks: {a: {}, b: {}}
replicas:
  large: {recipe: lab-tiny, sparks: [a, b], on_demand: true}
  one: {recipe: lab-built, sparks: [a], port: 8001, on_demand: true, api_key: none}
  other: {recipe: lab-embedding, sparks: [b], port: 8001, on_demand: true, api_key: none}
"""


def test_a_pair_on_demand_shares_its_sparks(fleet: Path) -> None:
    """Each of its Sparks has a door for what is its own, and reads all at once."""
    fleet.write_text(SHARED)
    sparks = []
    for rank, (name, own) in enumerate((("a", "one"), ("b", "other"))):
        found = FOUND | {
            "network.fabric": fabric_spark(rank).model_dump(mode="json"),
            "network.link": {"state": "fit", "certificate": "x"},
            "machine": SPARK | {"clock": int(time.time()), "machine": name},
        }
        data = {"ranks": ["a", "b"], "rank": rank, "spark": name, "hardware": "gb10"}
        turns = {"replica": "large", "on_demand": True, "replicas": ["large", own]}
        host = fake_host(state=found, fleet=str(fleet), **(SERVES | data | turns))
        sparks.append(replace(host, name=f"@fake/{name}"))
    head, worker = sparks
    head.peers = (worker,)
    plan(head)
    assert (len(head.asked), len(worker.asked)) == (1, 1)
    assert head.asked[0].count("door") == 2
    worker.peers = (head,)
    with worker.current():
        own = run_target.target()
        pair, single = own.seats
        assert (pair.seat, single.seat, pair.rank, single.rank) == ("", "other", 1, 0)
        assert ([len(each.together) for each in own.seats], single.fabric) == ([2, 1], None)
        assert [(each.name, each.grouped) for each in own.tenants] == [
            ("large", True),
            ("other", False),
        ]
        assert own.tenants[0].spare > own.tenants[1].spare
        # It reaches its head, and has a door for the other model.
        assert own.may_listen.doors == (8001,)
        assert single.may_listen == own.may_listen
        assert own.may_listen.fabric
        # What both models have comes once, by the fabric.
        assert single.release
        assert copied(own.seats) == {*single.release.folders.values()}
        assert copied([single]) == set()


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
    assert (own.place.user, second.place.user) == ("sparkwright-engine", "sparkwright-second")
    # What one has compiled, no other loads.
    assert second.place.cache("image") == "/opt/qwen36/cache/sparkwright-second-embed/image"
    assert second.place.sockets("r-1") == "/opt/qwen36/seats/embed/sockets/engines/r-1"
    assert second.place.release("r-1") == "/opt/qwen36/releases/r-1"
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
