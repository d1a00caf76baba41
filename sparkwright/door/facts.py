"""The door of a Spark."""

from sparkwright.common.facts import HostFact
from sparkwright.door.state import DoorState, door_script, keyed_script, parse_door, parse_keyed


class DoorStates(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    command = staticmethod(door_script)
    parse = staticmethod(parse_door)


class KeyedDoors(HostFact[list[str]]):
    """The folders of the doors of this host, its replica's and the gateway's, that have keys."""

    command = staticmethod(keyed_script)
    parse = staticmethod(parse_keyed)
