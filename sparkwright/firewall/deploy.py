"""The deploy of the firewall, which lets in clients and the other Spark of a pair."""

from pyinfra.api import deploy

from sparkwright.firewall.firewall import UfwRule, fabric_rules, port_rules
from sparkwright.firewall.operations import firewall
from sparkwright.run.target import target


@deploy("Firewall")
def apply() -> None:
    """Open the door's port on a head, and a pair's fabric to the other Spark."""
    own = target()
    rules: list[UfwRule] = []
    if own.is_head and own.port:
        rules += port_rules(own.port, "door", own.settings.firewall_from)
    if own.fabric:
        rules += fabric_rules(own.fabric)
    firewall(
        name="Firewall",
        root=own.root,
        mode=own.settings.firewall,
        purposes=("door", "fabric"),
        rules=rules,
    )
