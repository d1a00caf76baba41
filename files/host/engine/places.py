"""A place in a Spark's memory, for who is to start an engine where models take turns.

ROOT/manifests/turns.json is there where they do. Whoever needs a place writes RELEASE.asks, waits
for RELEASE.go, and keeps the place until both are gone; files/host/engine/turns gives it.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from host.common.atomic import replace
from host.common.seat import seat_of

# It ends with the boot, as every engine does.
RUN = Path("/run/sparkwright")
MANIFEST = "manifests/turns.json"
# Seconds within which there is a place, even if answers have to end and others start before.
PATIENCE = 1800.0


def on_demand(root: Path) -> bool:
    """Tell whether requests start the engines of the seat whose folder this is: none boots."""
    try:
        replicas = json.loads((root / MANIFEST).read_text("utf-8"))["replicas"].values()
        return any(each["on_demand"] for each in replicas if each["seat"] == seat_of(root))
    except FileNotFoundError:
        return False


class PlaceError(Exception):
    """There is no place, as a sentence."""


class Place:
    """The place of one release; without turns on the Spark there is one at once.

    Args:
        root: the folder of the release's seat.
    """

    def __init__(self, root: Path, release: str) -> None:
        self._turns = (root / MANIFEST).exists()
        self.asks, self.go = (RUN / f"{release}.{word}" for word in ("asks", "go"))

    @property
    def is_taken(self) -> bool:
        """Tell whether there is a place without a wait."""
        return not self._turns or self.go.exists()

    def take(self, pause: Callable[[], None]) -> None:
        """Wait for the place; `pause` waits a moment.

        Raises:
            PlaceError: there is none in time.
        """
        deadline = time.monotonic() + PATIENCE
        while not self.is_taken:
            if not self.asks.exists():
                RUN.mkdir(mode=0o755, exist_ok=True)
                replace(self.asks, "")
            if time.monotonic() > deadline:
                raise PlaceError(
                    f"there was no place in the memory within {PATIENCE:.0f} s: "
                    "systemctl status turns"
                )
            pause()

    def give_up(self) -> None:
        """Leave the place to others, but for what runs there."""
        self.asks.unlink(missing_ok=True)
        self.go.unlink(missing_ok=True)
