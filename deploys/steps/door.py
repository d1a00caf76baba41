"""The door: the only thing of a replica that listens on the LAN, on its head."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.certificate import read_certificate
from deploys.keys import api_keys
from deploys.operations.door import door, no_door
from deploys.plan.door import UNIT, DoorPlan, door_plan
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
        unit=(_FILES / UNIT).read_text(),
    )


def _plan() -> DoorPlan:
    """Return the door of the current Spark.

    Raises:
        PyinfraError: a setting, a key or the certificate is no good; no host has been changed.
    """
    data = host.data
    with bad_input():
        return door_plan(
            bind=data.bind,
            port=data.port,
            keys=None if data.api_key == "none" else api_keys(Path(data.fleet)),
            certificate=read_certificate(data.tls_certificate, data.tls_key),
            max_body_mib=data.max_body_mib,
            max_connections=data.max_connections,
        )
