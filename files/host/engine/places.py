"""A place in a Spark's memory, for whoever is to start an engine where models take turns.

ROOT/manifests/turns.json is there where they do. Whoever needs a place writes RELEASE.asks, waits
for RELEASE.go, and keeps the place until both are gone; files/host/engine/turns gives it.

A group's head gets its place with its start. Its workers run always, and ask once all have come;
RELEASE.back asks for a place back, there and at the head.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from host.common.atomic import replace
from host.common.seat import seat_of

if TYPE_CHECKING:
    from host.engine.peer_link import Links

# It ends with the boot, as every engine does.
RUN = Path("/run/sparkwright")
MANIFEST = "manifests/turns.json"
# Seconds within which there is a place, even if answers have to end and others start before.
PATIENCE = 1800.0
LOOK = 1.0


def on_demand(root: Path) -> bool:
    """Tell whether requests start the engines of the seat whose folder this is: none boots.

    A worker of a group does, and waits for its head.
    """
    try:
        replicas = json.loads((root / MANIFEST).read_text("utf-8"))["replicas"].values()
    except FileNotFoundError:
        return False
    seat = seat_of(root)
    return any(one["seat"] == seat and one["on_demand"] and not one["rank"] for one in replicas)


class Room:
    """The place of a release, by its seat's folder; there at once on a Spark without turns."""

    def __init__(self, root: Path, release: str) -> None:
        self.turns = root / MANIFEST
        words = ("asks", "go", "back")
        self.asks, self.go, self.back = (RUN / f"{release}.{word}" for word in words)

    @property
    def is_taken(self) -> bool:
        """Tell whether there is a place without a wait."""
        return not self.turns.exists() or self.go.exists()

    def take(self, pause: Callable[[], None]) -> None:
        """Wait for the place; `pause` waits a moment.

        Raises:
            TimeoutError: there is none in time.
        """
        deadline = time.monotonic() + PATIENCE
        for _ in self.asked():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"there was no place in the memory within {PATIENCE:.0f} s: "
                    "systemctl status turns"
                )
            pause()

    def asked(self) -> Iterator[None]:
        """Ask for the place, and yield until it is there."""
        while not self.is_taken:
            if not self.asks.exists():
                RUN.mkdir(mode=0o755, exist_ok=True)
                replace(self.asks, "")
            yield

    def give_up(self) -> None:
        """Leave the place to others, but for what runs there."""
        for path in (self.asks, self.go, self.back):
            path.unlink(missing_ok=True)


class GroupRoom:
    """The place of a group's engine, as its supervisor knows it."""

    def __init__(self, root: Path, release: str, rank: int) -> None:
        self._room, self._is_worker = Room(root, release), bool(rank)

    @property
    def head_rests(self) -> bool:
        """Tell whether requests start this worker's head, so that it may wait for it for days."""
        return self._is_worker and self._room.turns.exists()

    async def take(self, links: Links | None) -> None:
        """Wait until all have a place: none fills its memory while another one has to wait.

        The head has its own by its start, and its loop bounds this.
        """
        if not (links and self._room.turns.exists()):
            return
        if not self._is_worker:
            await links.all_say("place")
            links.say("places")
            return
        for _ in self._room.asked():
            await asyncio.sleep(LOOK)
        links.say("place")
        await links.all_say("places")

    async def pass_on(self, links: Links) -> NoReturn:
        """Tell the head's loop when a worker's Spark needs its place."""
        while True:
            if self._is_worker and self._room.back.exists():
                links.say("back")
            elif not self._is_worker and links.have_said("back"):
                with suppress(OSError):
                    self._room.back.touch()
            await asyncio.sleep(LOOK)

    def give_up(self) -> None:
        """Leave the place of a worker to others; one that was killed has left it taken."""
        if self._is_worker:
            self._room.give_up()
