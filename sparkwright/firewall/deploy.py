"""The deploy of the firewall: it lets in clients, a pair's other Spark, and who copies weights."""

from pyinfra.api import deploy

from sparkwright.common.ports import LAN_SHARE_PORT
from sparkwright.firewall.firewall import UfwRule, fabric_rules, port_rules
from sparkwright.firewall.operations import firewall
from sparkwright.run.target import target


@deploy("Firewall")
def apply() -> None:
    """Open the door's port on a head, a pair's fabric to its peer, and a share to who copies."""
    own = target()
    rules: list[UfwRule] = []
    for port in own.may_listen.doors:
        rules += port_rules(port, "door", own.settings.firewall_from)
    if own.fabric:
        rules += fabric_rules(own.fabric)
    if own.lending.clients:
        rules += port_rules(LAN_SHARE_PORT, "weights", own.lending.clients)
    firewall(
        name="Firewall",
        root=own.root,
        mode=own.settings.firewall,
        purposes=("door", "fabric", "weights"),
        rules=rules,
    )
