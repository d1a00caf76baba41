"""Where the cables of a group lead to, by who answers at each port."""

from collections.abc import Iterator, Mapping, Sequence

from sparkwright.common.errors import Finding, error
from sparkwright.common.hardware import Hardware
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.network.fabric.state import FabricState, Port, Ports

# The Sparks that answer at each port.
Wires = Mapping[Port, frozenset[str]]


def wires_of(
    hardware: Hardware, heard: Mapping[str, Sequence[str]], others: Mapping[str, FabricState]
) -> Wires:
    """Return the Sparks that answer at each port, by the MAC addresses that do at its twins."""
    owners = {netdev.mac: name for name, each in others.items() for netdev in each.netdevs.values()}
    return {
        port: frozenset(
            owners[mac] for netdev in port for mac in heard.get(netdev, ()) if mac in owners
        )
        for port in hardware.fabric_ports
    }


def ring_ports(plan: FabricPlan, hardware: Hardware, wires: Wires) -> Ports | None:
    """Return the ports of a Spark's two cables, in the plan's order; None if not both are known."""
    found = {
        peer: [port for port in hardware.fabric_ports if wires.get(port) == frozenset({peer})]
        for peer in plan.peers
    }
    if any(len(ports) != 1 for ports in found.values()):
        return None
    by_place = sorted(plan.peers, key=lambda peer: plan.link(peer).place)
    return tuple(found[peer][0] for peer in by_place)


def ring_findings(plan: FabricPlan, hardware: Hardware, wires: Wires) -> Iterator[Finding]:
    """Yield what keeps a Spark's two cables from being those of a ring."""
    yield error(
        f"the cables of {plan.spark} do not make a ring: {_ends(hardware, wires)}",
        f"Join each two of {plan.spark}, {' and '.join(plan.peers)} by one cable, in whichever "
        "ports. On a switch, leave fabric_ring out",
    )


def shared_findings(plan: FabricPlan, hardware: Hardware, wires: Wires) -> Iterator[Finding]:
    """Yield that a group has cables from Spark to Spark where a switch is meant."""
    ends = [wires.get(port, frozenset()) for port in hardware.fabric_ports]
    if not all(len(each) == 1 for each in ends) or len(frozenset().union(*ends)) < len(ends):
        return
    three = len(plan.sparks) == 3
    yield error(
        f"the cables of {plan.spark} lead to single Sparks: {_ends(hardware, wires)}",
        "Set fabric_ring = True in group_data/REPLICA.py for a ring of three"
        if three
        else "Put all on a switch: a ring of more than three needs a patched NCCL, as Sparks that "
        "are opposite have no cable between them",
    )


def _ends(hardware: Hardware, wires: Wires) -> str:
    """Say where each port leads to."""
    names = (" and ".join(sorted(wires.get(port, ()))) for port in hardware.fabric_ports)
    said = (f"leads to {each}" if each else "reaches none of the group" for each in names)
    return " and ".join(f"port {number} {each}" for number, each in enumerate(said))
