"""The state of a switch in ROOT: what it reads and writes there, and whose turn it is."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Turn:
    """One switch at a time; `wait` is called until it is this one's turn."""

    def __init__(self, root: Path, wait: Callable[[], None]) -> None:
        self._path = root / "state" / "switch.lock"
        self._wait = wait

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def laid_down(root: Path, release: str) -> dict[str, Any]:
    """Return what unit.json says of a release, and its port; less where a file is not there."""
    folder = root / "releases" / release
    content = load(folder / "release.json") or {}
    port = {"port": content["port"]} if "port" in content else {}
    return (load(folder / "unit.json") or {}) | port


def load(path: Path) -> dict[str, Any] | None:
    """Return what is in a file; None where there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path: Path, content: object) -> None:
    """Write a file beyond a loss of power."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(json.dumps(content) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Have what was done in a folder outlast a loss of power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def boot() -> str:
    """Return what names this boot."""
    return BOOT_ID.read_text().strip()
