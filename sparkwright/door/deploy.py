"""The door: the only thing of a replica that listens on the LAN, on its head."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.api import deploy

from sparkwright.common.errors import PlanError
from sparkwright.common.operations import is_dry_run
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import folder, seat_folders
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.door import SEAT_UNIT, UNIT, DoorPlan, IssuedToDoors, ask_door
from sparkwright.door.key import GATEWAY, Key
from sparkwright.door.keys import (
    OWNER,
    fleet_keys,
    gateway_key,
    has_keys,
    keys_path,
    lost,
    make_keys,
    named_key,
    new_secret,
)
from sparkwright.door.operations import door, no_door
from sparkwright.plan.release.programs import program_files
from sparkwright.run.spark import fleet_of
from sparkwright.run.state import read_all
from sparkwright.run.target import Target, bad_input, seats, target

_FILES = HOST_FILES / "door"

# The parts of a run are greenlets: the first makes the keys, the others wait.
_turn = threading.Lock()
# By inventory file, what a dry run plans with.
_planned: dict[Path, list[Key]] = {}


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    for seat in own.seats:
        if seat.is_head and seat.port:
            yield ask_door(seat.place, seat.settings.bind, seat.port)


@deploy("Door")
def apply() -> None:
    """Open the door on the head of each replica; on a worker and an idle Spark, have none."""
    if not target().is_head:
        own = target()
        no_door(name="No door", root=own.root, seats=any(each.is_head for each in own.seats))
    for own in (each for each in seats() if each.is_head):
        folders = (folder(own.root, "bin"), folder(own.root, "door"))
        there = [*folders, *program_files(own.root), *seat_folders(own.place)]
        plan = door_plan(own)
        unit = unit_file(_FILES / (SEAT_UNIT if own.seat else UNIT), root=own.root)
        door(name="Door of the replica", root=own.place, plan=plan, folders=there, unit=unit)


def door_plan(own: Target) -> DoorPlan:
    """Return the door of a replica, on its head."""
    assert own.replica
    assert own.port
    assert own.recipe
    with bad_input():
        fleet = fleet_of(own.fleet)
        keys = None if own.api_key == "none" else run_keys(fleet)
        certificate = None
        if own.settings.secured:
            # It takes 20 ms to import.
            from sparkwright.door.certificates import door_certificate

            check_authority(fleet, own.settings)
            certificate = door_certificate(fleet, own.replica, own.settings, not is_dry_run())
        return DoorPlan(
            own.settings,
            port=own.port,
            place=own.replica,
            keys=keys,
            certificate=certificate,
            hold_seconds=own.settings.hold(own.recipe.for_sparks(len(own.ranks)).start_timeout),
        )


def check_authority(fleet: Fleet, settings: Settings) -> None:
    """Let a run make the site's own authority only where no door has a certificate of one."""
    from sparkwright.door.certificates import authority_folder

    path = authority_folder(fleet.source)
    with _turn:
        if settings.tls == "own" and not path.exists():
            _refuse_if_lost(fleet, path, "certificate")


def _refuse_if_lost(fleet: Fleet, path: Path, issued: str) -> None:
    doors = read_all(IssuedToDoors)
    has = {spark: bool(getattr(found, issued)) for spark, found in doors.items()}
    if problem := lost(fleet, path, issued, has):
        raise PlanError(problem)


def run_keys(fleet: Fleet) -> list[Key]:
    """Return the API keys of a fleet; make what is missing: the first one, the gateway's own.

    A run makes no first one where a door has keys, or may have: they came from another file.
    """
    with _turn:
        if fleet.source in _planned:
            return _planned[fleet.source]
        keys = fleet_keys(fleet) if has_keys(fleet) else []
        if not keys:
            _refuse_if_lost(fleet, keys_path(fleet.source), "keys")
        missing = [] if keys else [OWNER]
        if fleet.gateway and gateway_key(keys) is None:
            missing.append(GATEWAY)
        if is_dry_run() and not fleet.keys_command:
            new = (Key(name=name, secret=new_secret()) for name in missing)
            return _planned.setdefault(fleet.source, [*keys, *new])
        if OWNER in missing and (said := make_keys(fleet)):
            print(said, file=sys.stderr)
        if GATEWAY in missing:
            named_key(fleet, GATEWAY)
        return fleet_keys(fleet) if missing else keys
