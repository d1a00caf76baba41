"""An image in Docker, by any of its names."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from host.state import docker
from host.state.readers import UnknownError

# Of its configuration, what containers take over.
_CONFIG = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")


def read(references: Sequence[str]) -> dict[str, Any]:
    """Return the image that has one of these names, None without one; and Docker's fault."""
    try:
        asked = (docker.get(f"/images/{name}/json") for name in references)
        found = next(filter(None, asked), None)
    except UnknownError as error:
        return {"image": None, "fault": str(error)}
    return {"image": _image(found) if found else None, "fault": ""}


def _image(found: dict[str, Any]) -> dict[str, Any]:
    """Return an image's id, its size, and a hash of its content.

    Layers and configuration identify the content, unlike the id, which depends on Docker's store.
    """
    config = found.get("Config") or {}
    content = [found["RootFS"].get("Layers"), *(config.get(key) or None for key in _CONFIG)]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return {"id": found["Id"], "size": found.get("Size", 0), "content": digest}
