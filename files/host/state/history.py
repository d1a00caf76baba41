"""The releases that have served in a seat, and what a way back would find."""

from typing import Any

from host.state.engines import current, owner, switches
from host.state.readers import names, text


def read(root: str) -> dict[str, Any]:
    """Return the releases in the order in which they came to serve; those there, and to come."""
    lines = (text(f"{root}/state/history") or "").splitlines()
    return {
        "served": [words[1] for words in map(str.split, lines) if len(words) == 2],
        "current": current(root),
        "installed": names(f"{root}/releases"),
        "under_way": [*filter(owner(root), switches())],
    }
