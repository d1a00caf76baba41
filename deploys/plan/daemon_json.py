"""Docker's daemon.json: ours merged into what is there."""

import json
from typing import Any


def merged(text: str, log_options: dict[str, str]) -> str:
    """Return daemon.json with bounded container logs, everything else kept.

    Args:
        text: the file as it is; "" without one.
        log_options: Docker's `log-opts`. A log driver or option that is set already stays.

    Raises:
        ValueError: the text is not a JSON object.
    """
    found: Any = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    if found.get("log-driver", "json-file") not in ("json-file", "local"):
        return text
    wanted = found | {"log-opts": log_options | found.get("log-opts", {})}
    return text if wanted == found else json.dumps(wanted, indent=4) + "\n"


def has_nvidia_runtime(text: str) -> bool:
    """Whether daemon.json registers NVIDIA's container runtime."""
    return "nvidia" in (json.loads(text) if text.strip() else {}).get("runtimes", {})
