"""OpenClaw's configuration for an inventory: for its gateway, or else for its doors."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any, NamedTuple

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text, write_file
from sparkwright.common.paths import FILES
from sparkwright.common.render import render
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import gateway_settings, settings_of_site
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door.gateway.gateway import ALIASES, ModelAlias, client_url, served, upstreams
from sparkwright.insight.monitoring.targets import targets

_MOST_BYTES = 2**20


class _Server(NamedTuple):
    """The gateway or a door, as a provider of OpenClaw's, with its names that chat."""

    provider: str
    url: str
    keyed: bool
    names: list[ModelAlias]


def _servers(fleet: Fleet) -> list[_Server]:
    replicas = upstreams(fleet, {name: load_recipe(name) for name in fleet.recipes})
    if fleet.gateway:
        url = client_url(fleet, gateway_settings(fleet).secured)
        found = [_Server("sparkwright", url, True, served(replicas))]
    else:
        asked = targets(fleet, settings_of_site(fleet))
        found = [
            _Server(
                "sparkwright" if len(asked) == 1 else f"sparkwright-{door.replica}",
                door.url,
                door.keyed,
                served([replica], by_gateway=False),
            )
            for door, replica in zip(asked, replicas, strict=True)
        ]
    return [
        server._replace(names=chatting)
        for server in found
        if (chatting := [name for name in server.names if name.answers == "chat"])
    ]


def configuration(fleet: Fleet) -> str:
    """Return OpenClaw's configuration for the gateway or the doors of a fleet."""
    if not (servers := _servers(fleet)):
        raise PlanError(f"{fleet.source}: found no replica that chats; expected one for OpenClaw")
    # If two doors serve the same name, a preset asks the first of them.
    known = {name.name: (server, name) for server in reversed(servers) for name in server.names}
    presets = [(alias, *known[name]) for name, alias in ALIASES.items() if name in known]
    text = render(FILES / "openclaw" / "openclaw.json.j2", servers=servers, presets=presets)
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def put(path: Path, ours: str) -> str:
    """Put our providers into OpenClaw's file, and return what was done."""
    previous = read_text(path, "OpenClaw's configuration", _MOST_BYTES)
    if previous is None:
        write_file(path, ours, 0o600)
        return f"{path}: made"
    try:
        own: dict[str, Any] = json.loads(previous)
        models = {"mode": "merge", **own.get("models", {})}
        others = models.get("providers", {}).items()
        kept = {name: each for name, each in others if not re.match(r"sparkwright(-|$)", name)}
        models["providers"] = kept | json.loads(ours)["models"]["providers"]
        merged = own | {"models": models}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise PlanError(
            f"{path}: found JSON5 with comments, or something else than mappings; expected JSON, "
            "as comments would be lost: take over by hand what this command prints without --into"
        ) from None
    backup, mode = path.with_name(f"{path.name}.before-sparkwright"), path.stat().st_mode
    if merged != own:
        write_file(backup, previous, stat.S_IMODE(mode))
        text = json.dumps(merged, indent=2, ensure_ascii=False) + "\n"
        write_file(path, text, stat.S_IMODE(mode))
    return f"{path}: has our providers, and all else as it was (before: {backup})"
