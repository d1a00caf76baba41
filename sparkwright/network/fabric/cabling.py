"""Finds the port of the cable, and the faults of the cabling."""

from collections.abc import Iterator

from sparkwright.common.errors import Finding, error, warning
from sparkwright.common.hardware import Hardware
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.network.fabric.bandwidth import STALE
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import FabricState

Port = tuple[str, str]


def common_port(hardware: Hardware, own: FabricState, peer: FabricState) -> Port | None:
    """Return the port in which both Sparks are cabled, both twins with a link; None without.

    With two cables it is the port that is set up already, or else the first without a default
    route, which may belong to the LAN.
    """
    ports = [port for port in cabled(hardware, own) if port in cabled(hardware, peer)]
    free = [port for port in ports if not (has_default(own, port) or has_default(peer, port))]
    ours = our_netdevs(own) & our_netdevs(peer)
    set_up = [port for port in free if set(port) <= ours]
    return next(iter(set_up or free or ports), None)


def cabled(hardware: Hardware, state: FabricState) -> list[Port]:
    """Return the ports of which both twins have a link."""
    return [port for port in hardware.fabric_ports if len(_linked(port, state)) == 2]


def has_default(state: FabricState, port: Port) -> bool:
    """Tell whether a default route leaves by a twin of the port."""
    return any(route.network is None and route.netdev in port for route in state.routes)


def switched_off(hardware: Hardware, state: FabricState) -> list[str]:
    """Return the interfaces that are switched off: whether they have a link cannot be seen."""
    netdevs = [netdev for port in hardware.fabric_ports for netdev in port]
    return [name for name in netdevs if name in state.netdevs and not state.netdevs[name].up]


def cable_findings(
    plan: FabricPlan, hardware: Hardware, own: FabricState, peer: FabricState
) -> list[Finding]:
    """Return the faults of one Spark's end of the cable."""
    port = common_port(hardware, own, peer)
    if port:
        return list(_speed(hardware, own, port))
    mine, theirs = cabled(hardware, own), cabled(hardware, peer)
    if mine and theirs:
        return [_different(plan, hardware, mine[0], theirs[0])]
    return [] if mine else [_no_link(plan, hardware, own)]


def _no_link(plan: FabricPlan, hardware: Hardware, own: FabricState) -> Finding:
    there = [port for port in hardware.fabric_ports if set(port) & set(own.netdevs)]
    if not there:
        names = ", ".join(netdev for port in hardware.fabric_ports for netdev in port)
        return error(
            f"{plan.spark} has none of the ConnectX interfaces {names}",
            "DGX OS may switch the card off while no cable is in: put it in until it clicks, "
            "and reboot this Spark. Still none? See `lspci | grep Mellanox`",
        )
    for port in there:
        linked = _linked(port, own)
        if linked:
            (other,) = set(port) - set(linked)
            what = "has no link" if other in own.netdevs else "is missing"
            return error(
                f"{plan.spark}: port {hardware.fabric_ports.index(port)} is cabled, and of its two "
                f"interfaces {linked[0]} has a link but {other} {what}",
                STALE,
            )
    return error(
        f"{plan.spark} has no ConnectX port with a link",
        f"Put the cable into the same port of {plan.spark} and {plan.peer}, pull tab up, "
        "until it clicks; both must be switched on",
    )


def _different(plan: FabricPlan, hardware: Hardware, mine: Port, theirs: Port) -> Finding:
    ports = hardware.fabric_ports
    ends = (ports.index(mine), plan.spark), (ports.index(theirs), plan.peer)
    (low, keeper), (high, mover) = sorted(ends)
    return error(
        f"the cable is in port {low} of {keeper} ({' and '.join(ports[low])}), "
        f"but in port {high} of {mover} ({' and '.join(ports[high])})",
        f"Move the cable of {mover} to port {low}; port 0 is the one next to the RJ45 socket",
    )


def _speed(hardware: Hardware, own: FabricState, port: Port) -> Iterator[Finding]:
    for netdev in port:
        speed = own.netdevs[netdev].speed
        if speed is not None and speed < hardware.fabric_speed:
            yield warning(
                f"{netdev} has a link of {speed // 1000} Gb/s, "
                f"expected {hardware.fabric_speed // 1000}",
                "The cable, or a switch between, is of the slower kind",
            )


def _linked(port: Port, state: FabricState) -> list[str]:
    return [name for name in port if name in state.netdevs and state.netdevs[name].carrier]
