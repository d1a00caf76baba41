"""Plans of a door, and the files that they stand for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparkwright.door.door import DoorPlan, door_plan
from sparkwright.door.key import Key
from sparkwright.fleet.settings import settings_of

FILES = Path(__file__).parents[3] / "files" / "host" / "door"
KEY, OTHER = "sk-0123456789abcdefghij", "sk-abcdefghij0123456789"
NUMBERS = ("max_body_mib", "max_connections", "stranger_connections", "key_requests")
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
    values = {"keys": [KEY], **SETTINGS, **changes}
    values["keys"] = named(values["keys"])
    settings = settings_of({"bind": "127.0.0.1", **values})
    others = {name: values[name] for name in values if name not in NUMBERS}
    return door_plan(settings, port=port, **others)


def named(keys: Sequence[str | Key] | None) -> list[Key] | None:
    if keys is None:
        return None
    each = enumerate(keys, 1)
    return [Key(f"client{number}", key) if isinstance(key, str) else key for number, key in each]


def files(of: DoorPlan, root: str = "/r") -> dict[str, str | None]:
    return of.files((FILES / "door.cfg").read_text(), root)
