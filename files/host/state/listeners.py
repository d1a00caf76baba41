"""Every socket that others can send to, and the containers of engines that run."""

from typing import Any

from host.state.containers import running
from host.state.sockets import listening


def read(root: str = "") -> dict[str, Any]:
    """Return all listening sockets, and the ids of our engines' containers."""
    return {"sockets": listening(), "engines": [each["Id"] for each in running()]}
