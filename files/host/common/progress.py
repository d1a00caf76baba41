"""The progress of a job: a small JSON file, written twice a second for whoever follows the job."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from host.common.atomic import replace


class JobError(Exception):
    """A failure that no further try can mend: a sentence, with the remedy."""


class Progress:
    """Keeps a file {"phase", "done", "total", "message"} up to date while a job runs.

    `measure`, called from another thread, returns phase, bytes done and bytes in total.
    """

    def __init__(self, path: Path, measure: Callable[[], tuple[str, int, int]]) -> None:
        self.message = ""
        self._path = path
        self._measure = measure
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Progress":
        self._write(*self._measure(), self.message)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._thread.join()
        _, done, total = self._measure()
        if error is None:
            self._write("done", total, total, self.message)
        else:
            known = isinstance(error, JobError)
            self._write("failed", done, total, str(error) if known else f"unexpected {error!r}")

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self._write(*self._measure(), self.message)

    def _write(self, phase: str, done: int, total: int, message: str) -> None:
        text = json.dumps({"phase": phase, "done": done, "total": total, "message": message})
        # On a full disk the message tells of it.
        replace(self._path, text + "\n")
