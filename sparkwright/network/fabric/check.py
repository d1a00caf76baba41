"""Checks a Spark's end of cable and fabric before any change, and compares it to its plan."""

from collections.abc import Iterator
from itertools import chain

from sparkwright.common.errors import Difference, Finding, error, warning
from sparkwright.common.hardware import Hardware
from sparkwright.common.placed import NETPLAN
from sparkwright.declared.fleet.fabric_plan import FabricPlan, netplan_text
from sparkwright.network.fabric.link_check import STALE
from sparkwright.network.fabric.netplan import foreign_settings, our_netdevs
from sparkwright.network.fabric.state import FabricState, NetplanFile, Port


def common_port(hardware: Hardware, own: FabricState, peer: FabricState) -> Port | None:
    """Return the port in which both Sparks are cabled, both twins with a link; None without.

    With two cables it is the port that is set up already, or else the first without a default
    route, which may belong to the LAN.
    """
    ports = [port for port in cabled(hardware, own) if port in cabled(hardware, peer)]
    free = [port for port in ports if not (_default(own, port) or _default(peer, port))]
    ours = our_netdevs(own) & our_netdevs(peer)
    set_up = [port for port in free if set(port) <= ours]
    return next(iter(set_up or free or ports), None)


def cabled(hardware: Hardware, state: FabricState) -> list[Port]:
    """Return the ports of which both twins have a link."""
    return [port for port in hardware.fabric_ports if len(_linked(port, state)) == 2]


def _linked(port: Port, state: FabricState) -> list[str]:
    return [name for name in port if name in state.netdevs and state.netdevs[name].carrier]


def _default(state: FabricState, port: Port) -> str | None:
    """Return the twin of a port by which a default route leaves; None where none does."""
    leaving = (route.netdev for route in state.routes if route.network is None)
    return next((netdev for netdev in leaving if netdev in port), None)


def switched_off(hardware: Hardware, state: FabricState) -> list[str]:
    """Return the interfaces that are switched off: whether they have a link cannot be seen."""
    netdevs = chain.from_iterable(hardware.fabric_ports)
    return [name for name in netdevs if name in state.netdevs and not state.netdevs[name].up]


def fabric_findings(
    plan: FabricPlan, hardware: Hardware, own: FabricState, peer: FabricState
) -> Iterator[Finding]:
    """Yield the faults of one Spark's end of the fabric."""
    if port := common_port(hardware, own, peer):
        yield from _slower(plan, hardware, own, port)
        yield from _in_use(plan, own, port)
        yield from foreign_settings(own, port)
        return
    # Its end of a cable does not join the same port of both.
    ports, mine, theirs = hardware.fabric_ports, cabled(hardware, own), cabled(hardware, peer)
    if mine and theirs:
        ends = (ports.index(mine[0]), plan.spark), (ports.index(theirs[0]), plan.peer)
        (low, keeper), (high, mover) = sorted(ends)
        yield error(
            f"the cable is in port {low} of {keeper} ({' and '.join(ports[low])}), "
            f"but in port {high} of {mover} ({' and '.join(ports[high])})",
            f"Move the cable of {mover} to port {low}; port 0 is the one next to the RJ45 socket",
        )
    elif not mine:
        yield _no_link(plan, hardware, own)


def _no_link(plan: FabricPlan, hardware: Hardware, own: FabricState) -> Finding:
    there = [port for port in hardware.fabric_ports if set(port) & set(own.netdevs)]
    if not there:
        names = ", ".join(chain.from_iterable(hardware.fabric_ports))
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


def _slower(
    plan: FabricPlan, hardware: Hardware, own: FabricState, port: Port
) -> Iterator[Finding]:
    """Yield the warnings about what is slower than it could be, or not measured."""
    for netdev in port:
        speed = own.netdevs[netdev].speed
        if speed is not None and speed < hardware.fabric_speed:
            yield warning(
                f"{netdev} has a link of {speed // 1000} Gb/s, "
                f"expected {hardware.fabric_speed // 1000}",
                "The cable, or a switch between, is of the slower kind",
            )
    missing = [netdev for netdev in port if netdev not in own.rdma]
    if missing:
        yield warning(
            f"no RDMA device for {' and '.join(missing)}: NCCL will use TCP, which is slower",
            "See `ls /sys/class/infiniband` and `lsmod | grep mlx5_ib`; "
            "DGX OS has the driver (DGX Dashboard, Update)",
        )
    elif not own.tool:
        yield warning(
            f"ib_write_bw is missing: the speed of the link to {plan.peer} is not measured",
            "Install it (`sudo apt install perftest`)",
        )


def _in_use(plan: FabricPlan, own: FabricState, port: Port) -> Iterator[Finding]:
    if netdev := _default(own, port):
        yield error(
            f"the default route leaves by {netdev}, an interface of the fabric",
            "Connect the Spark to the LAN by its RJ45 socket or Wi-Fi, and only the Sparks "
            "of the replica by the ConnectX port",
        )
    ours = {*port, *our_netdevs(own)}
    in_use = [(name, address.network, str(address)) for name, address in own.addresses]
    in_use += [
        (route.netdev, route.network, f"a route to {route.network}")
        for route in own.routes
        if route.network is not None
    ]
    remedy = "Give `fabric_subnets` in group_data two subnets that your network does not use"
    for planned in plan.networks:
        known = set(ours)
        for name, network, what in in_use:
            if name not in known and network.overlaps(planned):
                known.add(name)
                found = f"the fabric's subnet {planned} is in use: {name} has {what}"
                yield error(found, remedy)


def is_in_force(plan: FabricPlan, port: Port, state: FabricState) -> bool:
    """Tell whether both twins are as planned, now and after a boot."""
    return not any(fabric_differences(plan, port, state))


def fabric_differences(plan: FabricPlan, port: Port, state: FabricState) -> Iterator[Difference]:
    """Yield the differences of the fabric from its plan, on disk and in the kernel."""
    ours = [file for file in state.netplan if file.path == NETPLAN]
    if ours != [NetplanFile(NETPLAN, "root:600", netplan_text(plan, port))]:
        found = "another text, owner or mode" if ours else "nothing"
        yield Difference(NETPLAN, "the fabric's addresses, root:root 600", found)
    for name, address in zip(port, plan.interfaces, strict=True):
        netdev = state.netdevs.get(name)
        if netdev is None:
            yield Difference(name, "an interface", "none of that name")
            continue
        if not netdev.carrier:
            yield Difference(name, "a link", "none")
        if netdev.mtu != plan.mtu:
            yield Difference(name, f"MTU {plan.mtu}", str(netdev.mtu))
        addresses = [str(found) for where, found in state.addresses if where == name]
        if address not in addresses:
            yield Difference(name, address, ", ".join(addresses) or "no address")
