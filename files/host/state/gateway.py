"""The gateway's door on its host: what is installed for it, and who has its port."""

from typing import Any

from host.state.door import installed, stray, taken


def read(root: str, port: int = 0) -> dict[str, Any]:
    """Return what the files and units of a gateway do not tell."""
    return {
        "installed": installed() is not None,
        "stray": stray(root),
        "taken": taken(port, "gateway-door.service"),
    }
