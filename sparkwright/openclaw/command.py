"""OpenClaw's configuration for an inventory: for its gateway, or else for its doors."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.gateway.gateway import client_url, upstreams
from sparkwright.gateway.names import ModelAlias, served
from sparkwright.monitoring.command import door_chains, gateway_settings, settings
from sparkwright.monitoring.targets import targets
from sparkwright.openclaw.configuration import PROVIDER, Endpoint, has_agents, merged, openclaw
from sparkwright.recipe.loader import load_recipe, recipe_names

_BACKUP = ".before-sparkwright"


def endpoints(fleet: Fleet) -> list[Endpoint]:
    """Return the servers that OpenClaw asks: the gateway, or each door where there is none.

    Raises:
        PlanError: There is none that chats, or other machines cannot reach it.
    """
    found = _servers(fleet)
    chatting = [each for each in found if each.names]
    if not chatting:
        raise PlanError(f"{fleet.source}: found no replica that chats; expected one for OpenClaw")
    return chatting


def _servers(fleet: Fleet) -> list[Endpoint]:
    """Return all servers, with those names alone that chat."""
    replicas = upstreams(fleet, {name: load_recipe(name) for name in fleet.recipes})
    if fleet.gateway:
        secured = gateway_settings(fleet).secured
        return [Endpoint(PROVIDER, client_url(fleet, secured), True, _chatting(served(replicas)))]
    known = settings(fleet)
    doors = targets(fleet, known, door_chains(fleet, known))
    alone = len(doors) == 1
    return [
        Endpoint(
            provider=PROVIDER if alone else f"{PROVIDER}-{door.replica}",
            url=door.url,
            keyed=door.keyed,
            names=_chatting(served([replica], by_gateway=False)),
        )
        for door, replica in zip(doors, replicas, strict=True)
    ]


def _chatting(names: Sequence[ModelAlias]) -> list[ModelAlias]:
    return [name for name in names if name.answers == "chat"]


def put(path: Path, ours: dict[str, Any]) -> str:
    """Merge our part into OpenClaw's file; keep a copy of the previous file beside it.

    Returns:
        What was done, for people.

    Raises:
        PlanError: The file cannot be changed without losing something of its owner's.
        OSError: It cannot be read or written.
    """
    if not path.exists():
        write_file(path, as_text(ours), 0o600)
        return f"{path}: made"
    previous = path.read_text(encoding="utf-8")
    try:
        own = json.loads(previous)
    except ValueError:
        own = None
    if not isinstance(own, dict):
        raise PlanError(
            f"{path}: found JSON5 with comments, or something else than a mapping; expected JSON, "
            "as comments would be lost: take over by hand what this command prints without --into"
        )
    text = as_text(merged(own, ours))
    left = "; its agents and bindings are left alone" if has_agents(own) else ""
    if json.loads(text) == own:
        return f"{path}: has it already{left}"
    mode = stat.S_IMODE(path.stat().st_mode)
    backup = path.with_name(path.name + _BACKUP)
    write_file(backup, previous, mode)
    write_file(path, text, mode)
    return f"{path}: changed; as it was: {backup}{left}"


def configuration(inventory: Path, bindings: Sequence[str]) -> dict[str, Any]:
    """Return OpenClaw's configuration for the gateway or the doors of an inventory.

    Args:
        bindings: ``CHANNEL=NAME``: a served name, or an alias, that answers on a channel.

    Raises:
        PlanError: As `endpoints`, or a binding is invalid.
    """
    fleet = load_fleet(inventory, recipe_names())
    return openclaw(endpoints(fleet), _bindings(bindings))


def _bindings(words: Sequence[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0] and pair[2])]:
        raise PlanError(*(f"--bind: found {each}; expected CHANNEL=NAME" for each in wrong))
    return {channel: name for channel, _, name in pairs}


def as_text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
