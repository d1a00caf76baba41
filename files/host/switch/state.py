"""The state of a switch in ROOT: what it reads and writes there, and whose turn it is."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from host.common.atomic import replace


class Turn:
    """One switch at a time; `wait` is called until it is this one's turn."""

    def __init__(self, root: Path, wait: Callable[[], None]) -> None:
        self._path = root / "state" / "switch.lock"
        self._wait = wait

    def __enter__(self) -> None:
        self._file = self._path.open("w", encoding="utf-8")
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def laid_down(root: Path, release: str) -> dict[str, Any]:
    """Return what unit.json says of a release; nothing where there is none."""
    return load(root / "releases" / release / "unit.json") or {}


def load(path: Path) -> dict[str, Any] | None:
    """Return what is in a file; None where there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path: Path, content: object) -> None:
    """Write a file beyond a loss of power."""
    replace(path, json.dumps(content) + "\n", durable=True)
