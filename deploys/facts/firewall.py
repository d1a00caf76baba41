"""The rules of a Spark's firewall."""

from deploys.facts.host_fact import HostFact
from deploys.plan.firewall import FirewallState, firewall_script, parse_firewall


class Firewall(HostFact[FirewallState]):
    """The firewall, and all that must be known to change it, in one command.

    Args:
        root: the folder of everything on the Spark.
    """

    def command(self, root: str) -> str:
        return firewall_script(root)

    def parse(self, output: list[str]) -> FirewallState:
        return parse_firewall(output)
