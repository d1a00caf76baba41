"""The door of a Spark."""

from sparkwright.common.facts import HostFact
from sparkwright.door.state import DoorState, door_script, parse_door


class DoorStates(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    command = staticmethod(door_script)
    parse = staticmethod(parse_door)
