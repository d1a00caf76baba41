"""Inventories with keys, plans of a door, and the files that they stand for."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sparkwright.declared.fleet.settings import Settings, settings_of
from sparkwright.door.certificates import Certificate, read_certificate
from sparkwright.door.door import DoorPlan
from sparkwright.door.key import Key
from tests.unit.certificates import certificate, private_key, written

FILES = Path(__file__).parents[2] / "files" / "host" / "door"
KEY, OTHER = "sk-0123456789abcdefghij", "sk-abcdefghij0123456789"
FLEET = """\
sparks: {spark-a: {ssh_hostname: 192.0.2.1}, spark-b: {ssh_hostname: 192.0.2.2}}
replicas:
  chat: {recipe: qwen3.6-35b-nvidia, sparks: [spark-a]}
  open: {recipe: qwen3.6-35b-nvidia, sparks: [spark-b], api_key: none}
"""
# What a host without a door says.
NO_DOOR: dict[str, Any] = {
    **dict.fromkeys(("installed", "unit")),
    **dict.fromkeys(("stray", "elsewhere"), False),
    **dict.fromkeys(("version", "mark"), ""),
    "taken": [],
}
SETTINGS: dict[str, Any] = {
    "certificate": None,
    "max_body_mib": 1,
    "max_connections": 200,
    "stranger_connections": 40,
    "key_requests": None,
    "hold_seconds": 0,
    "place": "chat",
}


def plan(port: int, **changes: Any) -> DoorPlan:
    """Plan a door; its keys are those of `client1`, `client2` and so on, where they are texts."""
    values = {"bind": "127.0.0.1", "keys": [KEY], **SETTINGS, **changes}
    values["keys"] = named(values["keys"])
    settings = {name: each for name, each in values.items() if name in Settings.model_fields}
    own = [each.name for each in fields(DoorPlan)]
    others = {name: values[name] for name in values if name in own}
    return DoorPlan(settings_of(settings), port=port, **others)


def named(keys: Sequence[str | Key] | None) -> list[Key] | None:
    if keys is None:
        return None
    each = enumerate(keys, 1)
    return [
        Key(name=f"client{number}", secret=key) if isinstance(key, str) else key
        for number, key in each
    ]


def keys_text(*entries: str) -> str:
    """Return a file of keys: `NAME SECRET` for each, then what follows in YAML's flow style."""
    lines = ["keys:"]
    for name, secret, *more in (entry.split(" ", 2) for entry in entries):
        lines.append(f"  - {{{', '.join([f'name: {name}', f'secret: {secret}', *more])}}}")
    return "\n".join(lines) + "\n"


def declared(path: Path, more: str = "") -> Path:
    path.write_text(FLEET + more)
    return path


def own_certificate(folder: Path) -> Certificate:
    written(folder, certificate(key := private_key(), days=90), key)
    return read_certificate(str(folder / "tls.crt"), str(folder / "tls.key"))
