"""The seats of a Spark: it may be in several replicas, and so run several engines at once.

The first replica has the folder of everything on the Spark, ROOT, for itself, as if it were alone.
Each other one has ROOT/seats/NAME, which looks the same: its link `current`, its door and its state
are its own there, and all else is a link to ROOT's. So each program is given one of these, and
works on one replica. What systemd has is the whole Spark's: the seat that a release is for is in
its unit.json, and so in its id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Programs that read a Spark in a moment do without it.
    from pathlib import Path

SEATS = "seats"
# The folder of a seat in which each engine has one of its own, and the socket of its API there.
SOCKETS, SOCKET = "sockets/engines", "api.sock"


def seat_of(root: Path | str) -> str:
    """Return the name of the seat whose folder this is; "" for the first one's, ROOT."""
    above, name = os.path.split(root)
    return name if os.path.basename(above) == SEATS else ""


def seat_of_release(root: Path | str, release: str) -> str:
    """Return the name of the seat that a release is for; "" for the first one.

    A release that is not there any more counts as the first one's.
    """
    return str(laid_down(root, release).get("seat", ""))


def laid_down(root: Path | str, release: str, file: str = "unit.json") -> dict[str, Any]:
    """Return what a file of a release's folder says; nothing where it is missing or damaged."""
    try:
        with open(f"{root}/releases/{release}/{file}", encoding="utf-8") as opened:
            found = json.load(opened)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def place(root: Path, release: str) -> Path:
    """Return the folder of the seat that a release is for, below the folder of everything."""
    seat = seat_of_release(root, release)
    return root / SEATS / seat if seat else root


@contextmanager
def engine_address(root: Path | str, release: str) -> Iterator[str]:
    """Yield the address of an engine's socket, for a connection.

    It names the opened folder: the whole path may be longer than an address may be.

    Raises:
        OSError: it has never been started.
    """
    folder = os.open(f"{root}/{SOCKETS}/{release}", os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


def own(root: Path, releases: list[str]) -> list[str]:
    """Return those releases that are for the seat whose folder this is."""
    return [each for each in releases if seat_of_release(root, each) == seat_of(root)]
