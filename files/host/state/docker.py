"""Docker, asked by its socket: its command takes a tenth of a second of the processor each time."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from host.state.readers import UnknownError, exchange, once

SOCKET = "/var/run/docker.sock"
# Seconds for an answer, and its bytes.
_PATIENCE, _MOST = 20.0, 32 << 20
# Why it hangs: each further request would wait for as long.
_stuck: list[str] = []
# Of our engines' containers.
LABEL = "sparkwright.release"
# Of its configuration, what containers take over.
_CONFIG = ("Entrypoint", "Cmd", "Env", "User", "WorkingDir")


@once
def get(path: str) -> Any:
    """Return what Docker answers to GET, as JSON has it; None for what it does not have."""
    if _stuck:
        raise UnknownError(_stuck[0])
    try:
        request = f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n"
        answer = exchange(SOCKET, request, _PATIENCE, _MOST)
    except OSError as error:
        reason = f"Docker does not answer: {error.strerror or error}"
        if isinstance(error, TimeoutError):
            _stuck.append(reason)
        raise UnknownError(reason) from None
    if len(answer) >= _MOST:
        raise UnknownError(f"Docker's answer has {_MOST} bytes or more")
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status == [b"404"]:
        return None
    if status != [b"200"]:
        raise UnknownError(f"Docker refuses {path}: {body[:200].decode(errors='replace')}")
    return json.loads(body)


def engine_containers() -> list[dict[str, Any]]:
    """Return our engines' containers that run; none where Docker does not answer."""
    try:
        found = get("/containers/json") or []
    except UnknownError:
        return []
    return [each for each in found if (each["Labels"] or {}).get(LABEL)]


def image_id(names: Sequence[str]) -> str | None:
    """Return the id of the image that has one of these names; None where Docker knows none."""
    with suppress(UnknownError):
        if found := _named(names):
            return str(found["Id"])
    return None


def image(references: Sequence[str]) -> dict[str, Any]:
    """Return the image that has one of these names, None without one; and Docker's fault."""
    try:
        found = _named(references)
    except UnknownError as error:
        return {"image": None, "fault": str(error)}
    return {"image": _content(found) if found else None, "fault": ""}


def _named(names: Sequence[str]) -> dict[str, Any] | None:
    asked = (get(f"/images/{quote(name, safe='/:@')}/json") for name in names)
    return next(filter(None, asked), None)


def _content(found: dict[str, Any]) -> dict[str, Any]:
    # Layers and configuration identify the content, unlike the id, which depends on Docker's store.
    config = found.get("Config") or {}
    content = [found["RootFS"].get("Layers"), *(config.get(key) or None for key in _CONFIG)]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return {"id": found["Id"], "size": found.get("Size", 0), "content": digest}
