"""The door of a Spark."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.door import DoorState, door_script, parse_door


class Door(FactBase[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    def command(self, root: str, bind: str = "0.0.0.0", port: int = 0) -> str:
        return door_script(root, bind, port)

    def process(self, output: Iterable[str]) -> DoorState:
        try:
            return parse_door(output)
        except ValueError as error:
            raise FactProcessError(f"the state of the door is unreadable: {error}") from error
