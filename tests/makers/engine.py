"""Engines as a Spark tells of them, and fake Sparks that serve, switch or fail to."""

import json
from collections.abc import Mapping

from sparkwright.common.hardware import HARDWARE
from sparkwright.engine.switch import SwitchSettings
from tests.makers.release import release
from tests.unit.driven import Driven, fake_host

NEW = release()
SETTINGS = SwitchSettings(trial=15, drain=30, door=True, hardware=HARDWARE["lab"], load=None)
UNIT = "Id=vllm@{}.service\nActiveState={}\nNRestarts=0\nNeedDaemonReload=no\nJob=\nStatusText=x\n"
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
) -> str:
    names = [name for name in [NEW.id] if name not in dict(units)]
    shown = "\n".join(
        UNIT.format(*unit) for unit in [*units, *((name, "inactive") for name in names)]
    )
    models = json.dumps({"data": [{"id": name} for name in NEW.recipe.served_names]})
    return "\n".join(
        [
            "@@current",
            *([f"releases/{current}"] if current else []),
            "@@enabled",
            *([f"vllm@{enabled}.service"] if enabled else []),
            "@@share",
            "@@switches",
            *([f"switch@{switches}.service"] if switches else []),
            "@@failed",
            *([failed] if failed else []),
            "@@door",
            f"first {first}\nhold {hold}",
            "@@units",
            shown,
            "@@models",
            models,
            "@@completion",
            json.dumps({"usage": {"completion_tokens": 1}}) if serves else "curl: (28) timed out",
        ]
    )


def spark(
    found: str,
    report: Mapping[str, object] | None = None,
    log: str = "",
    size: int | None = None,
    history: str = "",
) -> Driven:
    said = json.dumps(REPORT | dict(report or {}))
    return fake_host(
        {
            "echo @@history": {"stdout": history},
            "echo @@current": {"stdout": found},
            "echo @@host": {"stdout": "@@host\n8000000\n7000000\n0\n@@gpu"},
            "--property=ActiveState switch@": {"stdout": f"inactive\n{said}\n{log}\n-- cursor: c"},
            "cat /opt/x/manifests/": {"stdout": json.dumps({"engine": size})},
        },
        spark="a",
    )


SETTLED = engines((NEW.id, "active"), enabled=NEW.id, current=NEW.id)
FORMER = engines(("old", "active"), enabled="old", current="old", first="old")


def changes(driven: Driven) -> list[str]:
    """The commands that change something."""
    looks = ("echo @@", "cat /opt", "systemctl show", "sha1sum", "\nenabled=", "mkdir -p /tmp")
    scripts = [script.strip() for script in driven.scripts()]
    return [each for each in scripts if not each.startswith(looks) and "@@" not in each]
