"""The release that a replica serves, and what it was made of."""

import json
import os
from typing import Any

from host.state.readers import text


def read(root: str) -> dict[str, Any]:
    """Return what `current` names, by the release.json that is beside it; nothing without it."""
    link = f"{root}/current"
    if not os.path.exists(link):
        return {}
    made = json.loads(text(f"{link}/release.json") or "")
    checkpoints = made["checkpoints"].values()
    return {
        "release": os.path.basename(os.readlink(link)),
        "vllm": made["vllm"],
        "pins": [made["image"], *(f"{each['repo']}@{each['commit']}" for each in checkpoints)],
    }
