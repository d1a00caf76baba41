"""The checks of the link between two Sparks, and the speed of its RDMA, by `ib_write_bw`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv6Address

from sparkwright.common.errors import Finding, error
from sparkwright.common.part import read_json
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.network.fabric.state import MEASURING, FabricState, Port, Probe, Rdma, Reach

# One TCP port a twin, as in NVIDIA's guide.
PORTS = (12000, 12001)
STALE = (
    "Reboot both Sparks; if that does not help, shut both down, unplug the power of both for 60 s "
    "and leave the cable in"
)

# Only a Spark that hides the output of its own commands leaves out a twin.
_NOT_REPORTED = error(
    "the link could not be checked: one of the two Sparks reports nothing about it",
    "Look at both with `ip address`: the twins named above must be there",
)


def probes(plan: FabricPlan, port: Port) -> list[Probe]:
    """Return the packets that test the link of each twin."""
    twins = zip(port, plan.peer_addresses, strict=True)
    return [(netdev, address, plan.mtu) for netdev, address in twins]


def gid_index(rdma: Rdma, address: str) -> int | None:
    """Return the index of an IPv4 address's RoCE v2 entry in the GID table of a Spark."""
    wanted = IPv6Address(f"::ffff:{address}").exploded, "RoCE v2"
    return next((index for index, *entry in rdma.gids if tuple(entry) == wanted), None)


def strangers(plan: FabricPlan, port: Port, own: FabricState, peer: FabricState) -> set[str]:
    """Return the MAC addresses that answer on the wire, and are not the peer's."""
    theirs = {peer.netdevs[netdev].mac for netdev in port if netdev in peer.netdevs}
    return {each.mac for each in (own.reach or {}).values()} - theirs - {"-"}


def link_findings(
    plan: FabricPlan, port: Port, own: FabricState, peer: FabricState, known: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the faults of the link as one Spark sees it, whose state has `reach` of all `probes`.

    `known` are the Sparks of other pairs in the run, by their MAC addresses.
    """
    found_there = sorted({known[mac] for mac in strangers(plan, port, own, peer) if mac in known})
    if found_there:
        there = " and ".join(found_there)
        yield error(
            f"the cable of {plan.spark} leads to {there}, expected {plan.peer}",
            f"Pull its other end out of {there}, and put it into the same port of {plan.peer}",
        )
        return
    if own.reach is None:
        yield error("the program ping is missing", "Install it (`sudo apt install iputils-ping`)")
        return
    for netdev, address, own_address in zip(port, plan.peer_addresses, plan.addresses, strict=True):
        reach, theirs = own.reach.get(address), peer.netdevs.get(netdev)
        if reach is None or theirs is None:
            yield _NOT_REPORTED
            continue
        yield from _reach(plan, netdev, address, reach, theirs.mac)
        if netdev in own.rdma:
            yield from _rdma(netdev, own_address, own.rdma[netdev])


def _reach(
    plan: FabricPlan, netdev: str, address: str, reach: Reach, mac: str
) -> Iterator[Finding]:
    if reach.route != netdev:
        yield error(
            f"packets to {plan.peer} ({address}) leave by {reach.route}, expected {netdev}",
            f"Look for a rule or a route of another tool: `ip rule`, `ip route get {address}`",
        )
    elif reach.mac not in ("-", mac):
        yield error(
            f"another machine answers for {address}: {reach.mac}, while {netdev} of {plan.peer} "
            f"has {mac}",
            f"The cable leads to a machine that is not in this run: put its other end into "
            f"{plan.peer}. At a switch, find that machine, or give `fabric_subnets` in group_data "
            "other subnets",
        )
    elif not reach.full and reach.small:
        yield error(
            f"{address} answers small packets but none of {plan.mtu} bytes: something between "
            f"{plan.spark} and {plan.peer} has a smaller MTU",
            f"Set the MTU of the switch to {plan.mtu} or more, or set `fabric_mtu` in group_data "
            "to the switch's maximum",
        )
    elif not reach.small:
        yield error(
            f"{plan.peer} ({address}) does not answer by {netdev}",
            f"The link is up but nothing passes: is the other end of the cable in {plan.peer}? "
            f"Look at a switch between, at `sudo iptables -S INPUT` on {plan.peer}, and reboot "
            "both",
        )


def _rdma(netdev: str, address: str, rdma: Rdma) -> Iterator[Finding]:
    if rdma.state != "ACTIVE":
        yield error(
            f"the RDMA port {rdma.device} of {netdev} is {rdma.state}, expected ACTIVE",
            "Reboot this Spark",
        )
    elif rdma.link_layer != "Ethernet":
        yield error(
            f"the RDMA port {rdma.device} is in {rdma.link_layer} mode, expected Ethernet",
            f"Set it with `sudo mlxconfig -d {rdma.device} set LINK_TYPE_P1=2` and reboot",
        )
    elif gid_index(rdma, address) is None:
        yield error(
            f"{rdma.device} has no RoCE v2 GID for {address}",
            f"Look at `show_gids {rdma.device}`; set the interface down and up, or reboot",
        )


def server_script(device: str, gid: int, port: int) -> str:
    """Return the command that waits for a measurement by the other Spark, and fails without one."""
    missed = f"echo 'the other Spark did not measure {device}: see its error' >&2; exit 1"
    words = f"ib_write_bw -d {shlex.quote(device)} -i 1 -x {gid} -p {port} -F --report_gbits"
    return f"timeout {MEASURING} {words} >/dev/null || {{ {missed}; }}"


def record(plan: FabricPlan, own: FabricState, peer: FabricState, port: Port) -> dict[str, str]:
    """Return the record of a link, by which another cable end, address or MTU is recognized."""
    ends = [*plan.interfaces, *plan.peer_addresses, str(plan.mtu)]
    ends += [state.netdevs[netdev].mac for state in (own, peer) for netdev in port]
    return {"link": sha256(" ".join(ends).encode()).hexdigest()[:16]}


def is_measured(state: FabricState, link: dict[str, str]) -> bool:
    """Tell whether this very link was measured, and found fast enough."""
    try:
        found = read_json(state.record)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("link") == link["link"]


def bandwidth_findings(
    plan: FabricPlan, port: Port, measured: Sequence[float | None]
) -> Iterator[Finding]:
    """Yield the faults that the measured Gb/s of each twin shows."""
    for netdev, value in zip(port, measured, strict=True):
        link = f"to {plan.peer} by {netdev}"
        if value is None:
            remedy = "Run it by hand (`ib_write_bw --help`), or look at `dmesg | grep mlx5`"
            yield error(f"ib_write_bw {link} gave no result", remedy)
        elif value < plan.bandwidth_minimum:
            least = f"expected {plan.bandwidth_minimum:g} (fabric_bandwidth_minimum)"
            yield error(f"RDMA {link} reaches {value:.1f} Gb/s, {least}", STALE)
