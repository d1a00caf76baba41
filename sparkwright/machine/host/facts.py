"""What Sparkwright has placed on the current host, as it is there."""

from collections.abc import Sequence

from pyinfra import host

from sparkwright.common.files import FileState
from sparkwright.machine.host.state import Placed, UnitState, ask_placed, asks_for
from sparkwright.run.state import read
from sparkwright.run.target import target


def placed() -> Placed:
    """Return what the host has of all that Sparkwright places, but for releases."""
    return read(host, ask_placed(target().root))


def path_states(paths: Sequence[str]) -> dict[str, FileState]:
    """Return the states of paths; one that is missing here is absent."""
    found: dict[str, FileState] = {}
    for ask, asked in asks_for(target().root, paths).items():
        states = read(host, ask).files
        found |= {path: states[path] for path in asked if path in states}
    return found


def unit_state(unit: str, files: Sequence[str] = ()) -> UnitState:
    """Return the state of a unit in relation to the files that configure it."""
    return placed().unit(unit, path_states(files).values())
