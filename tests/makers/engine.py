"""Engines as a Spark tells of them, and fake Sparks that serve, switch or fail to."""

import json
from collections.abc import Mapping
from typing import Any

from sparkwright.common.hardware import HARDWARE
from sparkwright.engine.state import EngineState
from sparkwright.engine.switch import SwitchSettings
from tests.makers.release import release
from tests.unit.driven import Driven, fake_host

NEW = release()
SETTINGS = SwitchSettings(trial=15, drain=30, door=True, hardware=HARDWARE["lab"], load=None)
REPORT = {"phase": "done", "done": 0, "total": 0, "message": "", "previous": "old", "beside": True}
REPORT |= {"restored": None, "began": 1, "seconds": 3.0, "gap": 0.0}
LOG = "vllm: error: unrecognized arguments: --swap-space 4"


def engines(
    *units: tuple[str, str],
    enabled: str = "",
    current: str = "",
    switches: str = "",
    failed: str = "",
    first: str = NEW.id,
    hold: str = "no",
    serves: bool = True,
    outdated: bool = False,
) -> dict[str, Any]:
    """Return the part `engines`; each of the texts is a list of words."""
    told = dict.fromkeys([NEW.id, *enabled.split()], "inactive") | dict(units)
    completion = json.dumps({"usage": {"completion_tokens": 1}}) if serves else "no answer in time"
    return {
        "current": current or None,
        "units": {
            name: unit(name, active, enabled=name in enabled.split(), outdated=outdated)
            for name, active in told.items()
        },
        "shares": False,
        "switches": switches.split(),
        "failed": failed.split(),
        "preferred": first if hold == "no" else None,
        "models": [*NEW.recipe.served_names],
        "completion": completion,
    }


def unit(name: str, active: str, **changes: object) -> dict[str, Any]:
    own = {"restarts": 0, "enabled": False, "outdated": False, "starting": False, "status": "x"}
    return own | {"release": name, "active": active, "since": 0} | changes


def state_of(told: Mapping[str, Any]) -> EngineState:
    return EngineState.model_validate_json(json.dumps(told))


def spark(
    found: Mapping[str, Any],
    report: Mapping[str, object] | None = None,
    log: str = "",
    size: int | None = None,
    history: Mapping[str, object] | None = None,
) -> Driven:
    memory = {"total": 8 << 30, "available": 7 << 30, "handover": 0, "gpu_free": None}
    switch = {"ended": True, "report": REPORT | dict(report or {}), "cursor": "c"}
    return fake_host(
        state={
            "engines": found,
            "machine.memory": memory | {"engine": size, "beside": 0, "reserved": 0},
            "engines.switch": switch | {"lines": [log] if log else []},
            "engines.history": history,
            "artifacts.compiled": {"size": None, "current": ""},
        },
        spark="a",
    )


SETTLED = engines((NEW.id, "active"), enabled=NEW.id, current=NEW.id)
FORMER = engines(("old", "active"), enabled="old", current="old", first="old")


def changes(driven: Driven) -> list[str]:
    looks = ("sha1sum", "mkdir -p /tmp")
    scripts = [script.strip() for script in driven.scripts()]
    return [each for each in scripts if not each.startswith(looks)]
