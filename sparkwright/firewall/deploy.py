"""The deploy of the firewall: it lets in clients and a pair's other Spark."""

from pyinfra.api import deploy

from sparkwright.firewall.firewall import UfwRule, fabric_rules, port_rules
from sparkwright.firewall.operations import firewall
from sparkwright.run.target import target


@deploy("Firewall")
def apply() -> None:
    """Open the door's port on a head, and a pair's fabric to its peer."""
    own = target()
    rules: list[UfwRule] = []
    for port in own.may_listen.doors:
        rules += port_rules(port, "door", own.settings.firewall_from)
    if own.fabric:
        rules += fabric_rules(own.fabric)
    firewall(
        name="Firewall",
        root=own.root,
        mode=own.settings.firewall,
        purposes=("door", "fabric"),
        rules=rules,
    )
