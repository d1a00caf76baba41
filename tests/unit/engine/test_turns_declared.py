"""What a run tells a Spark of its turns, and what the plan says of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.common.paths import HOST_FILES
from sparkwright.engine.deploy import started, stopped, take_turns, turns_text
from sparkwright.engine.operations import switch_settings
from sparkwright.plan.memory.turns import together
from sparkwright.run import spark as run_spark
from sparkwright.run import target as run_target
from sparkwright.run.target import Target, target
from tests.makers.engine import NEW, changes, engines
from tests.makers.preflight import SPARK
from tests.makers.release import lock, recipe
from tests.unit.driven import Driven, fake_host, file_of, placed

FLEET = """\
sparks:
  a: {hardware: lab}
replicas:
  chat: {recipe: lab-tiny, sparks: [a], on_demand: true, idle_minutes: 30}
  embed: {recipe: lab-embedding, sparks: [a], port: 8001}
  rank: {recipe: lab-reranker, sparks: [a], port: 8002, on_demand: true, turn_seconds: 0}
"""
MEMORY = {"available": 0, "handover": 2 * GIB, "gpu_free": None, "engine": None}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    gib = {"lab-tiny": "4", "lab-embedding": "1", "lab-reranker": "3"}
    own = {name: recipe(name=name, env={"VLLM_CPU_KVCACHE_SPACE": gib[name]}) for name in gib}
    monkeypatch.setattr(run_spark, "recipe_of", own.__getitem__)
    monkeypatch.setattr(run_target, "ensure_lock", lambda *_, **__: lock())
    path = tmp_path / "sparks.yaml"
    path.write_text(FLEET)
    return path


def spark(site: Path, total: int = 14, files: Any = None, **parts: Any) -> Driven:
    fleet = run_spark.fleet_of(site)
    memory = MEMORY | {"total": total * GIB, "beside": 0, "reserved": 0}
    found = {"placed": placed(files), "machine.memory": memory}
    found["machine"] = SPARK | {"memory": total * GIB, "kernel": SPARK["kernel"]}
    found |= parts
    own = fleet.served("a", "chat")
    data = own | {"spark": "a", "hardware": "lab", "fleet": str(site), "root": "/r"}
    return fake_host(state=found, replicas=fleet.replicas_of("a"), **data)


def target_of(driven: Driven) -> Target:
    with driven.current():
        return target()


def test_the_loop_gets_all_that_its_design_names(site: Path) -> None:
    driven = spark(site)
    own = target_of(driven)
    assert [each.seat for each in own.seats] == ["", "embed", "rank"]
    with driven.current():
        told = json.loads(turns_text(own))
    every = {"rank": 0, "pinned": False, "grouped": False, "spare": GIB, "hold": None}
    assert told == {
        "total": 12 * GIB,
        "drain": own.settings.drain_seconds,
        "replicas": {
            "chat": every
            | {"seat": "", "on_demand": True, "size": 6 * GIB, "turn": 60, "idle": 1800},
            "embed": every
            | {"seat": "embed", "on_demand": False, "size": 3 * GIB, "turn": 0, "idle": None},
            "rank": every
            | {"seat": "rank", "on_demand": True, "size": 5 * GIB, "turn": 0, "idle": None},
        },
    }
    assert {*json.loads(_in_design())["replicas"]["coder"]} == {*told["replicas"]["chat"]}
    assert together(own.tenants, told["total"]) == "chat + embed | embed + rank"
    assert driven.predicts_change(take_turns, own=own)
    # They are made for the room beside the others, and have no standby.
    assert [each.release.standby for each in own.seats if each.release] == [0, 0, 0]
    assert [switch_settings(each).others for each in own.seats] == [
        ("/r/seats/embed",),
        (),
        ("/r/seats/embed",),
    ]


def _in_design() -> str:
    text = (HOST_FILES / "engine/turns/DESIGN.md").read_text("utf-8")
    return text.partition("```json\n")[2].partition("```")[0]


def test_a_spark_without_turns_has_no_manifest(site: Path) -> None:
    site.write_text(re.sub(", on_demand.*}", "}", FLEET))
    run_spark.fleet_of.cache_clear()
    here = {"/r/manifests/turns.json": file_of("x")}
    removed_by = "rm -f /etc/systemd/system/turns.service /r/manifests/turns.json "
    for files, removed in ((here, True), ({}, False)):
        driven = spark(site, files=files)
        assert driven.run(take_turns, own=target_of(driven)).did_succeed()
        assert any(removed_by in script for script in driven.scripts()) is removed


def test_the_loop_runs_where_models_take_turns(site: Path) -> None:
    driven = spark(site)
    assert driven.run(take_turns, own=target_of(driven)).did_succeed()
    *_, enable, start = driven.scripts()
    assert enable == "systemctl enable --quiet turns.service"
    assert start == "systemctl daemon-reload && systemctl restart turns.service"


def test_who_stops_a_model_keeps_requests_from_starting_it(site: Path) -> None:
    """And not before it has ended: a masked unit has no way to end."""
    driven = spark(site, engines=engines((NEW.id, "active"), current=NEW.id))
    assert driven.run(stopped, own=target_of(driven)).did_succeed()
    name = f"vllm@{NEW.id}.service"
    assert changes(driven) == [
        f"systemctl stop {name}",
        f"systemctl mask --runtime --quiet {name} && systemctl stop {name}",
    ]
    always = spark(site, engines=driven.state["engines"] if driven.state else {})
    assert always.run(stopped, own=target_of(always).seats[1]).did_succeed()
    assert changes(always) == [f"systemctl stop {name}"]


def test_who_starts_a_model_again_leaves_it_to_the_next_request(site: Path) -> None:
    told = engines(current=NEW.id)
    told["units"][NEW.id]["masked"] = True
    driven = spark(site, engines=told)
    assert driven.run(started, own=target_of(driven)).did_succeed()
    unmask = f"systemctl unmask --runtime --quiet vllm@{NEW.id}.service"
    door = "python3 -B /r/bin/sparkwright-host door /r sync"
    assert changes(driven) == [f"{unmask} && {door}"]
    told["units"][NEW.id]["masked"] = False
    assert not driven.predicts_change(started, own=target_of(driven))
