"""The door of a Spark as it is."""

from typing import ClassVar

from sparkwright.common.part import Ask, Part
from sparkwright.machine.host.state import KnownUnit


class DoorState(Part):
    """The door of a seat as it is.

    Attributes:
        installed: Version of haproxy; None where it is missing.
        stray: haproxy's own service came with our package, and is on without doing anything.
        elsewhere: The address on which it is to listen is none of this Spark's.
        taken: Programs of others that listen on the door's port, as in "nginx (pid 7)".
        unit: None without systemd.
        version: Of haproxy as it runs.
        mark: What the door that runs was made of; "" while it does not run.
    """

    part: ClassVar = "door"

    installed: str | None
    stray: bool
    elsewhere: bool
    taken: tuple[str, ...]
    unit: KnownUnit | None
    version: str
    mark: str


def ask_door(place: str, bind: str, port: int) -> Ask[DoorState]:
    """Return the ask for the door of a seat, which is to listen there."""
    return DoorState.ask(root=place, bind=bind, port=port)


class IssuedToDoors(Part):
    """What a site has issued to the doors of a Spark; a certificate is of its own authority."""

    part: ClassVar = "door.issued"

    keys: bool
    certificate: bool
