"""A switch in ROOT: its record and report, whose turn it is, and the release to fall back to."""

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from host.common.atomic import replace
from host.common.log import log


@contextmanager
def turn(root: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Make one switch at a time; `wait` is called until it is this one's turn."""
    with (root / "state" / "switch.lock").open("w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                wait()
        yield


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


class Report:
    """The progress of a switch, and its result: a file that a run follows, and the journal."""

    def __init__(self, path: Path) -> None:
        self._file = path
        self._began = time.monotonic()
        self._closed: float | None = None
        self._said: dict[str, Any] = {
            "phase": "checking",
            "previous": None,
            "beside": False,
            "restored": None,
            "began": int(time.time()),
            "seconds": 0.0,
            "gap": 0.0,
        }

    def take_up(self) -> None:
        """Go on with the report of a program that was killed."""
        self._said |= load(self._file) or {}

    def say(self, phase: str, done: int = 0, total: int = 0, message: str = "") -> None:
        """Report the phase, and how far it is."""
        if phase != self._said["phase"]:
            log(phase)
        new = {"phase": phase, "done": done, "total": total, "message": message}
        if new.items() <= self._said.items() and self._file.exists():
            return
        self._said |= new
        self._write()

    def note(self, **values: object) -> None:
        """Report other values."""
        self._said |= values
        self._write()

    def close(self) -> None:
        """Note that no engine gets new requests from now on."""
        if self._closed is None:
            self._closed = time.monotonic()

    def open(self) -> None:
        """Note that requests are answered again."""
        if self._closed is not None:
            self._said["gap"] += round(time.monotonic() - self._closed, 1)
            self._closed = None

    def _write(self) -> None:
        self._said["seconds"] = round(time.monotonic() - self._began, 1)
        # A switch goes on, however full the disk is.
        with suppress(OSError):
            replace(self._file, json.dumps(self._said) + "\n")


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
        boots, running: the releases that do.
        last: the record of a switch that did not come to its end; empty without one.
    """
    if new in boots:
        return None, False
    # More than one is not our doing: the one that runs, or is current, is meant.
    meant = sorted(boots, key=lambda release: (release not in running, release != current))
    release = next(iter([*meant, *(each for each in running if each != new)]), None)
    if release is None:
        return None, False
    # A switch that was killed may have stopped it.
    stopped = (last.get("previous"), last.get("boot")) == (release, boot) and last.get("ran")
    return release, release in running or bool(stopped)


def fits_beside(unit: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell by two unit.json whether both can run at once: the fabric is one group's at a time."""
    return not unit["fabric"] and not theirs.get("fabric", True)
