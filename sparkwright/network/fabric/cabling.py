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
    said = " and ".join(_leads(number, wires.get(port)) for number, port in _numbered(hardware))
    ends = " and ".join(plan.peers)
    yield error(
        f"the cables of {plan.spark} do not make a ring: {said}",
        f"Join each two of {plan.spark}, {ends} by one cable, in whichever ports. On a switch, "
        "leave fabric_ring out",
    )


def shared_findings(plan: FabricPlan, hardware: Hardware, wires: Wires) -> Iterator[Finding]:
    """Yield that a group has cables from Spark to Spark where a switch is meant."""
    ends = [wires.get(port, frozenset()) for _, port in _numbered(hardware)]
    if not all(len(each) == 1 for each in ends) or len(frozenset().union(*ends)) < len(ends):
        return
    said = " and ".join(_leads(number, wires[port]) for number, port in _numbered(hardware))
    three = len(plan.sparks) == 3
    yield error(
        f"the cables of {plan.spark} lead to single Sparks: {said}",
        "Set fabric_ring = True in group_data/REPLICA.py for a ring of three"
        if three
        else "Put all on a switch: a ring of more than three needs a patched NCCL, as Sparks that "
        "are opposite have no cable between them",
    )


def _numbered(hardware: Hardware) -> Iterator[tuple[int, Port]]:
    return enumerate(hardware.fabric_ports)


def _leads(number: int, sparks: frozenset[str] | None) -> str:
    to = f"leads to {' and '.join(sorted(sparks))}" if sparks else "reaches none of the group"
    return f"port {number} {to}"
