"""The state of a switch in ROOT, whose turn it is, and the release to fall back to."""

import fcntl
import json
from collections.abc import Callable, Mapping, Sequence
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


def find_previous(
    new: str,
    boots: Sequence[str],
    running: Sequence[str],
    current: str,
    last: Mapping[str, Any],
    boot: str,
) -> tuple[str | None, bool]:
    """Return the release that boots now, where it is another one, and whether it runs.

    Where none boots, what somebody has started by hand counts.

    Args:
        new: the release that is to serve.
        boots, running: the releases that do.
        current: the one that should serve.
        last: the record of a switch that did not come to its end; empty without one.
        boot: names this boot.
    """
    if new in boots:
        return None, False
    # More than one is not our doing: the one that runs, or is current, is meant.
    meant = sorted(boots, key=lambda release: (release not in running, release != current))
    release = next(iter([*meant, *(each for each in running if each != new)]), None)
    if release is None:
        return None, False
    # A switch that was killed may have stopped it.
    stopped = (last.get("previous"), last.get("boot")) == (release, boot) and last["ran"]
    return release, release in running or bool(stopped)


def fits_beside(unit: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell by two unit.json whether both can run at once: the fabric is one pair's at a time."""
    return not unit["fabric"] and not theirs.get("fabric", True)


def has_head(theirs: Mapping[str, Any]) -> bool:
    """Tell whether a release is the worker's part of a pair, whose engine ends with the head's."""
    return bool(theirs.get("fabric")) and theirs.get("rank") == 1
