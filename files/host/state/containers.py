"""The containers of engines."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from host.state import docker
from host.state.readers import UnknownError

LABEL = "sparkwright.release"


def running() -> list[dict[str, Any]]:
    """Return our engines' containers that run; none where Docker does not answer."""
    try:
        found = docker.get("/containers/json") or []
    except UnknownError:
        return []
    return [each for each in found if (each["Labels"] or {}).get(LABEL)]


def image_id(names: Sequence[str]) -> str | None:
    """Return the id of an image by the first of its names that Docker knows."""
    try:
        found = [docker.get(f"/images/{quote(name, safe='/:@')}/json") for name in names]
    except UnknownError:
        return None
    return next((each["Id"] for each in found if each), None)
