"""The rules of a Spark's firewall."""

from sparkwright.common.facts import HostFact
from sparkwright.firewall.firewall import FirewallState, firewall_script, parse_firewall


class Firewall(HostFact[FirewallState]):
    """The firewall, and all that must be known to change it, in one command."""

    command = staticmethod(firewall_script)
    parse = staticmethod(parse_firewall)
