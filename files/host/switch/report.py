"""The report of a switch: a file that a run follows, and the journal."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from host.common.atomic import replace
from host.common.log import log
from host.switch.state import load


class Report:
    """The progress of a switch, and its result.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path
        self._began = time.monotonic()
        self._closed: float | None = None
        self._said: dict[str, Any] = {
            "phase": "checking",
            "former": None,
            "beside": False,
            "restored": None,
            "began": int(time.time()),
            "seconds": 0.0,
            "gap": 0.0,
        }

    def take_up(self) -> None:
        """Go on where a program that was killed has ended."""
        self._said |= load(self._file) or {}

    def say(self, phase: str, done: int = 0, total: int = 0, message: str = "") -> None:
        """Tell what is being done, and how far that is."""
        if phase != self._said["phase"]:
            log(phase)
        new = {"phase": phase, "done": done, "total": total, "message": message}
        if new.items() <= self._said.items() and self._file.exists():
            return
        self._said |= new
        self._write()

    def note(self, **values: object) -> None:
        """Tell something else."""
        self._said |= values
        self._write()

    def failed(self, reason: str) -> None:
        """Tell that it has failed."""
        self.say("failed", message=reason)
        log(reason)

    def close(self) -> None:
        """From now on no engine gets a new request."""
        if self._closed is None:
            self._closed = time.monotonic()

    def open(self) -> None:
        """From now on they are answered again."""
        if self._closed is not None:
            self._said["gap"] += round(time.monotonic() - self._closed, 1)
            self._closed = None

    def _write(self) -> None:
        self._said["seconds"] = round(time.monotonic() - self._began, 1)
        # A switch goes on, however full the disk is.
        with suppress(OSError):
            replace(self._file, json.dumps(self._said) + "\n")
