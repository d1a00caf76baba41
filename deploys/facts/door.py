"""The door of a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.door_state import DoorState, door_script, parse_door


class Door(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    command = staticmethod(door_script)
    parse = staticmethod(parse_door)
