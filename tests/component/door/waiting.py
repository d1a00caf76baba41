"""Requests on their way to a door, and engines that come and go behind it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.clock import patience
from tests.component.door.running import FakeServer, Running
from tests.component.servers import serving, until
from tests.makers.door import KEY

PATH = "/v1/chat/completions"
HOLD = 300


@dataclass
class Asked:
    """Requests on their way, each in a thread of its own; their answers as they come."""

    door: Running
    threads: list[threading.Thread] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def post(
        self, count: int = 1, key: str | None = KEY, body: bytes = b"{}", source: str = "127.0.0.1"
    ) -> None:
        """Send so many requests."""
        for _ in range(count):
            thread = threading.Thread(target=self._ask, args=(key, body, source))
            self.threads.append(thread)
            thread.start()

    def all(self) -> list[str]:
        """Wait for all answers; return the engines that gave them, or their statuses."""
        for thread in self.threads:
            thread.join(timeout=patience())
            assert not thread.is_alive()
        return [str(said.get("engine", status)) for status, said in self.answers]

    def _ask(self, key: str | None, body: bytes, source: str) -> None:
        # The end of a test may come first.
        with suppress(http.client.HTTPException, OSError):
            status, said, _ = self.door.ask("POST", PATH, key, body, source)
            self.answers.append((status, said))


def waiting(door: Running, count: int) -> None:
    """Return when so many requests wait."""
    until(lambda: door.door.haproxy.held()[0] == count)


def had(door: Running) -> None:
    """Have had the engine `a` behind the door, which has gone since; no check has noticed it."""
    with engine(door, "a"):
        door.door.offer("a")
        until(lambda: door.status("POST", PATH) == 200)


@contextmanager
def engine(door: Running, name: str) -> Iterator[FakeServer]:
    """An engine that comes, or comes again, and goes."""
    server = FakeServer(door.root, name)
    with serving(server):
        yield server
