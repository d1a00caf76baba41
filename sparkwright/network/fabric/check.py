"""Checks a Spark's end of cables and fabric before any change, and compares it to its plan."""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from itertools import chain, permutations

from sparkwright.common.errors import Difference, Finding, error, warning
from sparkwright.common.hardware import Hardware
from sparkwright.common.placed import NETPLAN
from sparkwright.declared.fleet.fabric_plan import FabricPlan, netplan_text
from sparkwright.network.fabric.cabling import Wires, ring_findings, ring_ports, shared_findings
from sparkwright.network.fabric.link_check import STALE
from sparkwright.network.fabric.netplan import foreign_settings, our_netdevs
from sparkwright.network.fabric.state import FabricState, NetplanFile, Port, Ports, Route

# The Sparks of a group by their names.
States = Mapping[str, FabricState]


def ports_of(
    plan: FabricPlan, hardware: Hardware, states: States, wires: Wires | None = None
) -> Ports | None:
    """Return the port of each of a Spark's cables; None where there are not all.

    Args:
        wires: Where each port of a ring leads to, if that was looked for.
    """
    if not plan.ring:
        port = common_port(hardware, states)
        return (port,) if port else None
    return set_up(plan, hardware, states[plan.spark]) or ring_ports(plan, hardware, wires or {})


def set_up(plan: FabricPlan, hardware: Hardware, state: FabricState) -> Ports | None:
    """Return the ports in which a Spark is as planned; None where there are none."""
    ways = permutations(hardware.fabric_ports, len(plan.cables))
    return next((ports for ports in ways if is_in_force(plan, ports, state)), None)


def common_port(hardware: Hardware, states: States) -> Port | None:
    """Return the port in which all Sparks are cabled, both twins with a link; None without.

    With two cables it is the port that is set up already, or else the first without a default
    route, which may belong to the LAN.
    """
    own = states.values()
    ports = [port for port in hardware.fabric_ports if all(_is_linked(port, each) for each in own)]
    free = [port for port in ports if not any(_default(each, port) for each in own)]
    set_up = [port for port in free if all({*port} <= our_netdevs(each) for each in own)]
    return next(iter(set_up or free or ports), None)


def cabled(hardware: Hardware, state: FabricState) -> list[Port]:
    """Return the ports of which both twins have a link."""
    return [port for port in hardware.fabric_ports if _is_linked(port, state)]


def _is_linked(port: Port, state: FabricState) -> bool:
    return len(_linked(port, state)) == 2


def _linked(port: Port, state: FabricState) -> list[str]:
    return [name for name in port if name in state.netdevs and state.netdevs[name].carrier]


def _default(state: FabricState, netdevs: Sequence[str]) -> str | None:
    """Return the interface of some by which a default route leaves; None where none does."""
    leaving = (route.netdev for route in state.routes if route.network is None)
    return next((netdev for netdev in leaving if netdev in netdevs), None)


def switched_off(hardware: Hardware, state: FabricState) -> list[str]:
    """Return the interfaces that are switched off: whether they have a link cannot be seen."""
    netdevs = chain.from_iterable(hardware.fabric_ports)
    return [name for name in netdevs if name in state.netdevs and not state.netdevs[name].up]


def fabric_findings(
    plan: FabricPlan, hardware: Hardware, states: States, wires: Wires | None = None
) -> Iterator[Finding]:
    """Yield the faults of one Spark's end of the fabric.

    Args:
        wires: Where each port leads to, if that was looked for: in groups of three and more.
    """
    own, there = states[plan.spark], cabled(hardware, states[plan.spark])
    if ports := ports_of(plan, hardware, states, wires):
        for port in ports:
            yield from _slower(plan, hardware, own, port)
        yield from _in_use(plan, own, [*chain(*ports)])
        yield from foreign_settings(own, [*chain(*ports)])
        if not plan.ring and wires:
            yield from shared_findings(plan, hardware, wires)
    elif len(there) < len(plan.cables):
        yield _no_link(plan, hardware, own)
    elif plan.ring:
        yield from ring_findings(plan, hardware, wires or {})
    else:
        yield from _different_ports(plan, hardware, states)


def _different_ports(plan: FabricPlan, hardware: Hardware, states: States) -> Iterator[Finding]:
    """Yield whose ends of cables are not in the port of most."""
    ports, names = hardware.fabric_ports, sorted(states)
    # Who has no link at all says so itself.
    known = {name: mine for name in names if (mine := cabled(hardware, states[name]))}
    kept = max(ports, key=lambda port: sum(port in mine for mine in known.values()))
    moved = [name for name, mine in known.items() if kept not in mine]
    if moved:
        keeper = next(name for name, mine in known.items() if kept in mine)
        who, number, (other, *_) = " and ".join(moved), ports.index(kept), known[moved[0]]
        yield error(
            f"the cable is in port {number} of {keeper} ({' and '.join(kept)}), but in port "
            f"{ports.index(other)} of {who} ({' and '.join(other)})",
            f"Move the cable of {who} to port {number}; port 0 is the one next to the RJ45 socket",
        )


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
        if len(linked) == 1:
            (other,) = set(port) - set(linked)
            what = "has no link" if other in own.netdevs else "is missing"
            return error(
                f"{plan.spark}: port {hardware.fabric_ports.index(port)} is cabled, and of its two "
                f"interfaces {linked[0]} has a link but {other} {what}",
                STALE,
            )
    if plan.ring:
        ends = " and one to ".join(plan.peers)
        return error(
            f"{plan.spark} has {len(cabled(hardware, own))} of {len(plan.cables)} ConnectX ports "
            "with a link",
            f"A ring (fabric_ring) needs a cable from {plan.spark} to {ends}, each put in until it "
            "clicks; all must be switched on",
        )
    return error(
        f"{plan.spark} has no ConnectX port with a link",
        f"Put the cable into the same port of {plan.spark} and {' and '.join(plan.peers)}, pull "
        "tab up, until it clicks; all must be switched on",
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
            "ib_write_bw is missing: the speed of the link to "
            f"{' and '.join(plan.peers)} is not measured",
            "Install it (`sudo apt install perftest`)",
        )


def _in_use(plan: FabricPlan, own: FabricState, netdevs: Sequence[str]) -> Iterator[Finding]:
    if netdev := _default(own, netdevs):
        yield error(
            f"the default route leaves by {netdev}, an interface of the fabric",
            "Connect the Spark to the LAN by its RJ45 socket or Wi-Fi, and only the Sparks "
            "of the replica by the ConnectX port",
        )
    ours = {*netdevs, *our_netdevs(own)}
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


def let_in(plan: FabricPlan, ports: Mapping[str, Ports], states: States) -> Iterator[str]:
    """Yield who may send packets: by which interface, from which address, by which card."""
    for link in plan.links:
        mine, theirs = ports[plan.spark][link.place], ports[link.peer][link.of_peer.place]
        for twin, address in link.reached:
            yield from (mine[twin], address, states[link.peer].netdevs[theirs[twin]].mac)


def is_in_force(plan: FabricPlan, ports: Ports, state: FabricState) -> bool:
    """Tell whether all twins are as planned, now and after a boot."""
    return not any(fabric_differences(plan, ports, state))


def fabric_differences(plan: FabricPlan, ports: Ports, state: FabricState) -> Iterator[Difference]:
    """Yield the differences of the fabric from its plan, on disk and in the kernel."""
    netdevs = [*chain(*ports)]
    ours = [file for file in state.netplan if file.path == NETPLAN]
    if ours != [NetplanFile(NETPLAN, "root:600", netplan_text(plan, netdevs))]:
        found = "another text, owner or mode" if ours else "nothing"
        yield Difference(NETPLAN, "the fabric's addresses, root:root 600", found)
    for name, address in zip(netdevs, plan.interfaces, strict=True):
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
    for place, to, via in plan.routes:
        if Route(netdevs[place], IPv4Network(to)) not in state.routes:
            yield Difference(netdevs[place], f"a route to {to} via {via}", "none")
