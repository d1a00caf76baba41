"""What runs print, as examples for pages: made by the code that prints it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

from sparkwright.common.command_line import PROGRAM_VARIABLE
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.insight.status.operations import ServedReplica, ending
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.requirements import Requirements, summary
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from sparkwright.plan.release.release import Release

_RECIPE = load_recipe("qwen3.6-35b-nvidia")
_NAMES = tuple(_RECIPE.served_names)
# Bytes of an image, as AEON-7 has it.
IMAGE = 9_000_000_000


def weights(recipe: str) -> int:
    load = nominal_load(load_recipe(recipe).for_sparks(1), 1)
    return sum(each.size for each in load.checkpoints.values())


_WEIGHTS, _IMAGE, _FREE = weights(_RECIPE.name), IMAGE, 3_500_000_000_000


def end_of_run() -> str:
    inventory = Path("inventory/sparks.yaml")
    environment = mock.patch.dict(os.environ, {PROGRAM_VARIABLE: "uv run sparkwright"})
    with tempfile.TemporaryDirectory() as site, contextlib.chdir(site), environment:
        inventory.parent.mkdir()
        inventory.with_suffix(".keys").touch()
        serving = ServedReplica("chat", "http://192.168.1.20:8000", _NAMES, keyed=True)
        return _fence("\n".join(ending([serving], inventory, changed=True)))


def recorded(session: str) -> str:
    """Return what a person has typed and seen, as tests/system/test_person.py records it."""
    shown = session[session.index("$ sparkwright init") : session.index("$ sparkwright keys")]
    parts = re.split(r"^(?=\$ )", shown, flags=re.MULTILINE)
    kept = [_short(part.rstrip()) for part in parts if part and not part.startswith("$ git")]
    session = re.sub(r"\S*/(?=my-sparks\b)", "~/", "\n\n".join(kept))
    # The stand-in's words mean nothing.
    session = re.sub(r'("reasoning": "(?: \w+){3})[^"]*', r"\1 …", session)
    return _fence("\n".join(map(str.rstrip, session.splitlines())))


# How a run begins, what it prints of each operation, and what pyinfra says of any plan.
_LONG = re.compile(
    r"(?<=\n)(?P<begin>--> Loading config\.\.\.\n).*?(?=--> Preparing)"
    r"|(?<=\n)(?P<run>--> Beginning operation run\.\.\.\n).*?(?=--> Disconnecting)"
    r"|(?<=\n\n)(?P<note>)    Detected changes may not.*?(?=\n--> Disconnecting)",
    re.DOTALL,
)


def _short(part: str) -> str:
    return _LONG.sub(lambda match: f"{match[match.lastgroup or 0]}    …\n", part)


def plan() -> str:
    survey = SimpleNamespace(weights=0, image=None, root_free=_FREE, docker_free=_FREE, serves=None)
    spark, ports = HARDWARE["gb10"], (8000,)
    wanted = Requirements(spark, Settings(), None, None, "chat", None, _WEIGHTS, _IMAGE, 0, ports)
    memory = plan_memory(nominal_load(_RECIPE.for_sparks(1), 1), spark)
    release = SimpleNamespace(id=f"{_RECIPE.name}-1a2b3c4d", recipe=_RECIPE)
    return _fence("\n".join(summary(cast(Release, release), cast(Survey, survey), wanted, memory)))


def _fence(text: str) -> str:
    return f"```\n{text}\n```"
