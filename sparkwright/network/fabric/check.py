"""Checks a Spark's end of the fabric before the network is changed, and compares it to its plan."""

from collections.abc import Iterator

from sparkwright.common.errors import Difference, Finding, error, warning
from sparkwright.common.hardware import Hardware
from sparkwright.common.placed import NETPLAN
from sparkwright.declared.fleet.fabric_plan import FabricPlan, netplan_text
from sparkwright.network.fabric.cabling import Port, cable_findings, common_port
from sparkwright.network.fabric.netplan import foreign_settings, our_netdevs
from sparkwright.network.fabric.state import FabricState, NetplanFile


def fabric_findings(
    plan: FabricPlan, hardware: Hardware, own: FabricState, peer: FabricState
) -> list[Finding]:
    """Return the faults of one Spark's end of the fabric, errors first."""
    found = cable_findings(plan, hardware, own, peer)
    port = common_port(hardware, own, peer)
    if port:
        found += [
            *_default_route(own, port),
            *_in_use(plan, own, port),
            *foreign_settings(own, port),
            *_rdma(plan, own, port),
        ]
    return sorted(found, key=lambda finding: not finding.error)


def is_in_force(plan: FabricPlan, port: Port, state: FabricState) -> bool:
    """Tell whether both twins are as planned, now and after a boot."""
    return not any(fabric_differences(plan, port, state))


def _default_route(own: FabricState, port: Port) -> Iterator[Finding]:
    for route in own.routes:
        if route.network is None and route.netdev in port:
            yield error(
                f"the default route leaves by {route.netdev}, an interface of the fabric",
                "Connect the Spark to the LAN by its RJ45 socket or Wi-Fi, and only the Sparks "
                "of the replica by the ConnectX port",
            )
            return


def _in_use(plan: FabricPlan, own: FabricState, port: Port) -> Iterator[Finding]:
    ours = {*port, *our_netdevs(own)}
    in_use = [(name, address.network, str(address)) for name, address in own.addresses]
    in_use += [
        (route.netdev, route.network, f"a route to {route.network}")
        for route in own.routes
        if route.network is not None
    ]
    for planned in plan.networks:
        found = [
            (name, what)
            for name, network, what in in_use
            if name not in ours and network.overlaps(planned)
        ]
        for name, what in dict(reversed(found)).items():
            yield error(
                f"the fabric's subnet {planned} is in use: {name} has {what}",
                "Give `fabric_subnets` in group_data two subnets that your network does not use",
            )


def _rdma(plan: FabricPlan, own: FabricState, port: Port) -> Iterator[Finding]:
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
