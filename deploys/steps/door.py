"""The door: the only thing of a replica that listens on the LAN, on its head."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.certificate import door_certificate
from deploys.keys import fleet_keys
from deploys.operations.door import door, no_door
from deploys.operations.messages import is_dry_run
from deploys.plan.door import UNIT, DoorPlan, door_plan
from deploys.plan.fleet_file import load_fleet
from deploys.plan.recipes import recipe_names
from deploys.plan.render import render
from deploys.steps.context import bad_input

_FILES = Path(__file__).parents[2] / "files" / "door"
# What imports another comes after it.
_PROGRAMS = ("haproxy.py", "door.py")


@deploy("Door")
def apply() -> None:
    """Open the door on the head of a replica; on a worker and an idle Spark, have none."""
    if not host.data.recipe or host.data.rank != 0:
        no_door(name="No door", root=host.data.root)
        return
    door(
        name="Door of the replica",
        root=host.data.root,
        plan=_plan(),
        template=(_FILES / "door.cfg").read_text(),
        programs={name: (_FILES / name).read_text() for name in _PROGRAMS},
        unit=render(_FILES / UNIT, root=host.data.root),
    )


def _plan() -> DoorPlan:
    """Return the door of the current Spark.

    Raises:
        PyinfraError: a setting, a key or the certificate is no good; no host has been changed.
    """
    data, record = host.data, not is_dry_run()
    with bad_input():
        fleet = load_fleet(Path(data.fleet), recipe_names())
        return door_plan(
            bind=data.bind,
            port=data.port,
            place=data.replica,
            keys=None
            if data.api_key == "none"
            else fleet_keys(fleet.source, record, fleet.replicas),
            certificate=door_certificate(
                fleet, data.replica, lambda _, name: data.get(name), record
            ),
            max_body_mib=data.max_body_mib,
            max_connections=data.max_connections,
            stranger_connections=data.stranger_connections,
            key_requests=data.key_requests,
            hold_seconds=data.hold_seconds,
        )
