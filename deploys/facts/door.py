"""The door of a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.door_state import DoorState, door_script, parse_door


class Door(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    def command(self, root: str, bind: str = "0.0.0.0", port: int = 0) -> str:
        return door_script(root, bind, port)

    def parse(self, output: list[str]) -> DoorState:
        return parse_door(output)
