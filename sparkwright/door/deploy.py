"""The door: the only thing of a replica that listens on the LAN, on its head."""

from pyinfra.api import deploy

from sparkwright.common.operations import is_dry_run
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import unit_file
from sparkwright.door.certificates import door_certificate
from sparkwright.door.door import UNIT, DoorPlan, door_plan
from sparkwright.door.keys import fleet_keys
from sparkwright.door.operations import door, no_door
from sparkwright.release.programs import program_files
from sparkwright.run.spark import fleet_of
from sparkwright.run.target import Target, bad_input, target

_FILES = HOST_FILES / "door"


@deploy("Door")
def apply() -> None:
    """Open the door on the head of a replica; on a worker and an idle Spark, have none."""
    own = target()
    if not own.is_head:
        no_door(name="No door", root=own.root)
        return
    door(
        name="Door of the replica",
        root=own.root,
        plan=_plan(own),
        template=(_FILES / "door.cfg").read_text(),
        programs=program_files(own.root),
        unit=unit_file(_FILES / UNIT, root=own.root),
    )


def _plan(own: Target) -> DoorPlan:
    """Return the door of the current Spark.

    Raises:
        PyinfraError: a key or the certificate is no good; no host has been changed.
    """
    assert own.replica
    assert own.port
    record = not is_dry_run()
    with bad_input():
        fleet = fleet_of(own.fleet)
        return door_plan(
            own.settings,
            port=own.port,
            place=own.replica,
            keys=None if own.api_key == "none" else fleet_keys(own.fleet, record, fleet.replicas),
            certificate=door_certificate(fleet, own.replica, own.settings, record),
            hold_seconds=own.settings.hold_seconds,
        )
