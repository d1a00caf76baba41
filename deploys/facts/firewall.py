"""What the firewall of a Spark lets through."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.firewall import FirewallState, firewall_script, parse_firewall


class Firewall(FactBase[FirewallState]):
    """The firewall, and all that must be known to change it, in one command.

    Args:
        root: the folder of everything on the Spark.
    """

    def command(self, root: str) -> str:
        return firewall_script(root)

    def process(self, output: Iterable[str]) -> FirewallState:
        try:
            return parse_firewall(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
