"""The door of a Spark."""

from sparkwright.common.facts import HostFact
from sparkwright.door.state import DoorState, door_script, issued_script, parse_door, parse_issued


class DoorStates(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    command = staticmethod(door_script)
    parse = staticmethod(parse_door)


class IssuedToDoors(HostFact[set[str]]):
    """Names of what the doors of this host have, its replicas' and the gateway's: "keys", and
    "certificate" if a site's own authority has signed it.
    """

    command = staticmethod(issued_script)
    parse = staticmethod(parse_issued)
