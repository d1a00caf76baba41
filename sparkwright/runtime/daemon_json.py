"""Docker's daemon.json: our settings merged into it, and how Docker takes them up."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sparkwright.common.host_output import read_json


def merged(text: str, log_options: dict[str, str]) -> str:
    """Return daemon.json with bounded container logs, everything else kept.

    Args:
        text: the file as it is; "" without one.
        log_options: Docker's `log-opts`. A log driver or option that is set already stays.

    Raises:
        ValueError: the text is not a JSON object.
    """
    found = _object(text)
    if found.get("log-driver", "json-file") not in ("json-file", "local"):
        return text
    wanted = found | {"log-opts": log_options | found.get("log-opts", {})}
    return text if wanted == found else json.dumps(wanted, indent=4) + "\n"


def has_nvidia_runtime(text: str) -> bool:
    """Tell whether daemon.json registers NVIDIA's container runtime."""
    return "nvidia" in _object(text).get("runtimes", {})


def step(
    *, active: bool, log_options: bool, runtime: bool, containers: Sequence[str], wanted: bool
) -> Literal["start", "restart", "reload", ""]:
    """Return the systemctl command by which Docker takes up its settings; "" for none.

    A restart ends containers. Runtimes take effect by a reload, log options only by a start.

    Args:
        active: Docker runs.
        log_options: the file has changed since Docker's start, beyond what a reload takes up.
        runtime: Docker does not know the runtime nvidia yet.
        containers: names of those that run.
        wanted: Docker may end them.
    """
    if not active:
        return "start"
    if log_options and (wanted or not containers):
        return "restart"
    return "reload" if runtime else ""


def waits(containers: Sequence[str]) -> str:
    """Return the notice that Docker is not restarted, which would end these containers."""
    return (
        f"Docker is not restarted, which would end {', '.join(containers)}. The bounds for logs of "
        "new containers come into force with its next start, or now by --data docker=restart"
    )


def without_ours(text: str, previous: str, log_options: Mapping[str, str]) -> str:
    """Return daemon.json without our additions; `previous` if nothing else has changed.

    Args:
        text: the file as it is.
        previous: the file as it was before our first change; "" without one.
        log_options: those that we set. One with another value by now is the owner's.

    Raises:
        ValueError: one of the texts is not a JSON object.
    """
    found, before = _object(text), _object(previous)
    ours: list[tuple[str, str]] = [
        ("log-opts", key)
        for key, value in log_options.items()
        if found.get("log-opts", {}).get(key) == value
    ]
    for section, key in (*ours, ("runtimes", "nvidia")):
        if key in found.get(section, {}) and key not in before.get(section, {}):
            del found[section][key]
            if not found[section] and section not in before:
                del found[section]
    if found == before:
        return previous
    return text if found == _object(text) else json.dumps(found, indent=4) + "\n"


def _object(text: str) -> dict[str, Any]:
    found: Any = read_json(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    for section in ("log-opts", "runtimes"):
        if not isinstance(found.get(section, {}), dict):
            raise ValueError(f"{section}: expected a JSON object")
    return found
