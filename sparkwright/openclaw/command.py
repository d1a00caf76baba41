"""OpenClaw's configuration for an inventory: for its gateway, or else for its doors."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text, write_file
from sparkwright.common.paths import FILES
from sparkwright.common.render import render
from sparkwright.common.schema import nearest
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.fleet.group_data import gateway_settings, settings_of_site
from sparkwright.gateway.gateway import client_url, upstreams
from sparkwright.gateway.names import ALIASES, ModelAlias, served
from sparkwright.monitoring.command import door_chains
from sparkwright.monitoring.targets import targets
from sparkwright.recipe.loader import load_recipe, recipe_names

_TEMPLATE = FILES / "openclaw" / "openclaw.json.j2"
_PROVIDER = "sparkwright"
_MOST_BYTES = 2**20


@dataclass(frozen=True)
class _Server:
    """The gateway or a door, as a provider of OpenClaw's, with those of its names that chat."""

    provider: str
    url: str
    keyed: bool
    names: Sequence[ModelAlias]


class _Agent:
    """A name that a channel or a preset stands for; OpenClaw lists it by its reference."""

    def __init__(self, server: _Server, name: ModelAlias) -> None:
        self.alias = ALIASES.get(name.name)
        self.reference = f"{server.provider}/{name.name}"
        self.thinks = name.thinks
        # OpenClaw accepts small letters, digits, '_' and '-', at most 64.
        text = re.sub(r"[^a-z0-9_-]+", "-", (self.alias or name.name).lower())
        self.id = f"agent-{text}"[:64].rstrip("-")
        # OpenClaw 2026.9.6 itself sends no top_p or top_k.
        rest = dict(name.sampling)
        temperature = rest.pop("temperature", None)
        self.params = {"temperature": temperature, "extra_body": rest} if self.alias else None


def _servers(fleet: Fleet) -> list[_Server]:
    replicas = upstreams(fleet, {name: load_recipe(name) for name in fleet.recipes})
    if fleet.gateway:
        url = client_url(fleet, gateway_settings(Path.cwd(), fleet).secured)
        return [_Server(_PROVIDER, url, True, _chatting(served(replicas)))]
    known = settings_of_site(Path.cwd(), fleet)
    doors = targets(fleet, known, door_chains(fleet, known))
    return [
        _Server(
            _PROVIDER if len(doors) == 1 else f"{_PROVIDER}-{door.replica}",
            door.url,
            door.keyed,
            _chatting(served([replica], by_gateway=False)),
        )
        for door, replica in zip(doors, replicas, strict=True)
    ]


def _chatting(names: Sequence[ModelAlias]) -> list[ModelAlias]:
    return [name for name in names if name.answers == "chat"]


def configuration(inventory: Path, bindings: Sequence[str]) -> dict[str, Any]:
    """Return OpenClaw's configuration for the gateway or the doors of an inventory.

    Args:
        bindings: ``CHANNEL=NAME``: a served name, or an alias, that answers on a channel.

    Raises:
        PlanError: No replica chats, other machines cannot reach one, or a binding is invalid.
    """
    fleet = load_fleet(inventory, recipe_names())
    servers = [server for server in _servers(fleet) if server.names]
    if not servers:
        raise PlanError(f"{fleet.source}: found no replica that chats; expected one for OpenClaw")
    pairs = [word.partition("=") for word in bindings]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0] and pair[2])]:
        raise PlanError(*(f"--bind: found {each}; expected CHANNEL=NAME" for each in wrong))
    known: dict[str, _Agent] = {}
    for server in servers:
        for name in server.names:
            # If two doors serve the same model, its alias stands for the first of them.
            known.setdefault(name.name, _Agent(server, name))
    presets = [known[name] for name in ALIASES if name in known]
    known |= {str(preset.alias): preset for preset in presets}
    if unknown := [name for _, _, name in pairs if name not in known]:
        raise PlanError(*(f"--bind: found {each}; {nearest(each, known)}" for each in unknown))
    bound = {channel: known[name] for channel, _, name in pairs}
    content: dict[str, Any] = json.loads(
        render(
            _TEMPLATE,
            servers=servers,
            presets=presets,
            primary=known[servers[0].names[0].name].reference,
            agents=list({agent.id: agent for agent in (*presets, *bound.values())}.values()),
            bindings=bound,
        )
    )
    return content


def put(path: Path, ours: dict[str, Any]) -> str:
    """Put our providers into OpenClaw's file; keep a copy of the previous file beside it.

    Returns:
        What was done, for people.

    Raises:
        PlanError: The file cannot be changed without losing something of its owner's.
        OSError: It cannot be written.
    """
    previous = read_text(path, "OpenClaw's configuration", _MOST_BYTES)
    if previous is None:
        write_file(path, as_text(ours), 0o600)
        return f"{path}: made"
    left = "its default model, agents and bindings are left alone"
    try:
        own = json.loads(previous)
        models = own.setdefault("models", {})
        providers = models.setdefault("providers", {}).items()
        others = {key: each for key, each in providers if not re.match(rf"{_PROVIDER}(-|$)", key)}
        models["providers"] = others | ours["models"]["providers"]
        models.setdefault("mode", "merge")
    except (ValueError, AttributeError, RecursionError):
        raise PlanError(
            f"{path}: found JSON5 with comments, or something else than mappings; expected JSON, "
            "as comments would be lost: take over by hand what this command prints without --into"
        ) from None
    if json.loads(previous) == own:
        return f"{path}: has it already; {left}"
    mode = stat.S_IMODE(path.stat().st_mode)
    backup = path.with_name(f"{path.name}.before-sparkwright")
    write_file(backup, previous, mode)
    write_file(path, as_text(own), mode)
    return f"{path}: has our providers; as it was: {backup}; {left}"


def as_text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
