"""The firewall: what clients and the other Spark of a pair need comes through it."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.firewall import firewall
from deploys.plan.firewall import Rule, checked_mode, fabric_rules, networks, port_rules
from deploys.steps.context import bad_input, fabric_plan


@deploy("Firewall")
def apply() -> None:
    """Open the door's port on a head, and a pair's fabric to the other Spark."""
    data, plan = host.data, fabric_plan()
    with bad_input():
        mode, sources = checked_mode(data.firewall), networks(data.firewall_from)
    rules: list[Rule] = []
    if data.recipe and data.rank == 0:
        rules += port_rules(data.port, "door", sources)
    if plan:
        rules += fabric_rules(plan)
    firewall(
        name="Firewall",
        root=data.root,
        mode=mode,
        purposes=("door", "fabric"),
        rules=rules,
    )
