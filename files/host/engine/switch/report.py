"""The report of a switch: a file that a run follows, and the journal."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from host.common.atomic import replace
from host.common.log import log
from host.engine.switch.state import load


class Report:
    """The progress of a switch, and its result."""

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

    def failed(self, reason: str) -> None:
        """Report the failure."""
        self.say("failed", message=reason)
        log(reason)

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
