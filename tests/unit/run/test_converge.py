"""What `converge` reads of a Spark: all of it is asked beforehand, in one command."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.deploy import add_deploy
from pyinfra.api.state import StateStage

from sparkwright import deploy
from sparkwright.run import spark as run_spark
from sparkwright.run import target as run_target
from tests.makers.engine import engines
from tests.makers.preflight import SPARK
from tests.makers.release import lock, recipe
from tests.unit.driven import fake_host, placed

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
    "machine": SPARK | {"clock": int(time.time())},
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
    "machine.gpu_proof": {"versions": ["1"], "proved": ["1"]},
    "engines": lambda root, release="", **_: engines(
        (release, "active"), enabled=release, current=release
    ),
    "placed": lambda units=(), **_: placed(units=dict.fromkeys(units, "loaded active enabled 1")),
    "artifacts.environment": {"requirements": None},
    "artifacts.weights": lambda root, folders: {
        "folders": {name: {"manifest": None, "files": {}} for name in folders}
    },
    "docker.image": {"image": None, "fault": ""},
    "door": {
        "installed": None,
        "stray": False,
        "elsewhere": False,
        "taken": [],
        "unit": None,
        "version": "",
        "mark": "",
    },
    "exporter": {"holder": None, "installed": False, "ours": False},
}


SERVES = {
    "replica": "chat",
    "recipe": "lab-tiny",
    "ranks": ["a"],
    "rank": 0,
    "port": 8000,
    "api_key": "none",
}


@pytest.mark.parametrize(
    "more", [SERVES, SERVES | {"replicas": ["chat", "embed"]}, {}], ids=["one", "two", "idle"]
)
def test_all_is_asked_beforehand(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for step in ("start_session", "hold_lease", "announce"):
        monkeypatch.setattr(deploy, step, lambda: None)
    monkeypatch.setattr(run_spark, "recipe_of", lambda _: recipe())
    monkeypatch.setattr(run_target, "ensure_lock", lambda *_, **__: lock())
    fleet = tmp_path / "sparks.yaml"
    fleet.write_text(INVENTORY)
    own = fake_host(state=FOUND, spark="a", hardware="lab", fleet=str(fleet), **more)
    with own.current() as host:
        host.state.set_stage(StateStage.Prepare)
        add_deploy(host.state, deploy.converge)
    (asked,) = own.asked
    assert {"machine", "placed", "engines", "firewall"} <= {*asked}
