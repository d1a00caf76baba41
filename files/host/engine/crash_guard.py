"""Counts how often this Spark went down without a shutdown while its engine ran."""

import json
import shutil
import time
from pathlib import Path
from threading import Lock

from host.common.atomic import replace

WINDOW = 3600
# One power cut is an accident; two within the window are a cause.
TOO_MANY = 2


def boot_id() -> str:
    """Return the kernel's name of this boot: a power cut may have ended what another one began."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()


class CrashGuard:
    """Keeps ROOT/state/running@RELEASE while that engine runs, and the times of hard ends.

    In a switch, another release may run beside this one.
    """

    def __init__(self, root: Path, release: str, boot_id: str) -> None:
        self._folder = root / "state"
        self._marker = self._folder / f"running@{release}"
        self._record = self._folder / "hard-downs"
        self._boot_id = boot_id
        self._lock = Lock()
        self._over = False

    def mark(self) -> None:
        """Record durably that the engine runs, unless `clear` was called before.

        A thread does this, and may get to it after the run that started it has ended.
        """
        with self._lock:
            if not self._over:
                self._write(self._marker, {"boot": self._boot_id, "time": time.time()})

    def clear(self) -> None:
        """Record an orderly end; a later `mark` does nothing."""
        with self._lock:
            self._over = True
            self._marker.unlink(missing_ok=True)

    def too_many_hard_downs(self, now: float) -> bool:
        """Count the markers that another boot left, each once; tell whether there were too many.

        Then the record is emptied: the next start is one by hand, and is not refused. Of a switch
        that another boot left, nothing waits any more, and nobody may come to make it again.
        """
        if self._left_behind(switch := self._folder / "switch.json"):
            switch.unlink(missing_ok=True)
            for waited in self._folder.glob("standby@*"):
                shutil.rmtree(waited, ignore_errors=True)
        markers = [path for path in self._folder.glob("running*") if path.suffix != ".new"]
        left = [marker for marker in markers if self._left_behind(marker)]
        if not left:
            return False
        downs = [time for time in self._downs() if 0 <= now - time < WINDOW] + [now]
        too_many = len(downs) >= TOO_MANY
        self._write(self._record, [] if too_many else downs)
        for marker in left:
            marker.unlink(missing_ok=True)
        return too_many

    def _left_behind(self, marker: Path) -> bool:
        try:
            return bool(json.loads(marker.read_text("utf-8"))["boot"] != self._boot_id)
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError):
            return True

    def _downs(self) -> list[float]:
        try:
            return [float(time) for time in json.loads(self._record.read_text("utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def _write(self, path: Path, content: object) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace(path, json.dumps(content) + "\n", durable=True)
