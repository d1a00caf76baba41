"""The checks of the link between two Sparks, and the speed of its RDMA, by `ib_write_bw`."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Any

from sparkwright.common.errors import Finding, error
from sparkwright.common.part import read_json
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fabric_plan import FabricLink
from sparkwright.network.fabric.state import MEASURING, Ends, FabricState, Port, Probe, Rdma, Reach

# One TCP port a twin, as in NVIDIA's guide.
PORTS = (12000, 12001)
# Of two Sparks as they are delivered, one measured 93 and 97 Gb/s of its twins.
NOTABLE = 0.85
STALE = (
    "Reboot both Sparks; if that does not help, shut both down, unplug the power of both for 60 s "
    "and leave the cable in"
)

# Only a Spark that hides the output of its own commands leaves out a twin.
_NOT_REPORTED = error(
    "the link could not be checked: one of the two Sparks reports nothing about it",
    "Look at both with `ip address`: the twins named above must be there",
)


def probes(link: FabricLink, port: Port) -> list[Probe]:
    """Return the packets that test a link."""
    return [(port[twin], address, link.plan.mtu) for twin, address in link.reached]


def gid_index(rdma: Rdma, address: str) -> int | None:
    """Return the index of an IPv4 address's RoCE v2 entry in the GID table of a Spark."""
    wanted = IPv6Address(f"::ffff:{address}").exploded, "RoCE v2"
    return next((index for index, *entry in rdma.gids if tuple(entry) == wanted), None)


def strangers(
    link: FabricLink, ends: Ends, own: FabricState, peer: FabricState, heard: Iterable[str] = ()
) -> set[str]:
    """Return the MAC addresses that answer on the wire, where none of the peer's does.

    Args:
        heard: Those that answer at the port, whoever is asked for; on a switch all may.
    """
    theirs = {peer.netdevs[netdev].mac for netdev in ends[1] if netdev in peer.netdevs}
    reach = own.reach or {}
    asked = {reach[address].mac for _, address in link.reached if address in reach}
    found = {*heard} if {*heard} and not {*heard} & theirs else set()
    return (asked | found) - theirs - {"-"}


def link_findings(
    link: FabricLink,
    ends: Ends,
    own: FabricState,
    peer: FabricState,
    known: Mapping[str, str],
    heard: Iterable[str] = (),
) -> Iterator[Finding]:
    """Yield the faults of a link as one Spark sees it, whose state has `reach` of all `probes`.

    Args:
        known: The other Sparks in the run, by their MAC addresses.
        heard: See `strangers`.
    """
    (port, theirs), spark = ends, link.spark
    answering = strangers(link, ends, own, peer, heard)
    if found_there := sorted({known[mac] for mac in answering if mac in known}):
        there = " and ".join(found_there)
        where = "a port" if link.plan.ring else "the same port"
        yield error(
            f"the cable of {spark} leads to {there}, expected {link.peer}",
            f"Pull its other end out of {there}, and put it into {where} of {link.peer}",
        )
        return
    if own.reach is None:
        yield error("the program ping is missing", "Install it (`sudo apt install iputils-ping`)")
        return
    for twin, address in link.reached:
        reach, end = own.reach.get(address), peer.netdevs.get(theirs[twin])
        if reach is None or end is None:
            yield _NOT_REPORTED
            continue
        yield from _reach(link, port[twin], address, reach, end.mac)
    for netdev, address in zip(port, link.addresses, strict=True):
        if netdev in own.rdma:
            yield from _rdma(netdev, address, own.rdma[netdev])


def _reach(
    link: FabricLink, netdev: str, address: str, reach: Reach, mac: str
) -> Iterator[Finding]:
    name, mtu = link.peer, link.plan.mtu
    if reach.route != netdev:
        yield error(
            f"packets to {name} ({address}) leave by {reach.route}, expected {netdev}",
            f"Look for a rule or a route of another tool: `ip rule`, `ip route get {address}`",
        )
    elif reach.mac not in ("-", mac):
        yield error(
            f"another machine answers for {address}: {reach.mac}, while {name} has {mac}",
            f"The cable leads to a machine that is not in this run: put its other end into "
            f"{name}. At a switch, find that machine, or give `fabric_subnets` in group_data "
            "other subnets",
        )
    elif not reach.full and reach.small:
        yield error(
            f"{address} answers small packets but none of {mtu} bytes: something between "
            f"{link.spark} and {name} has a smaller MTU",
            f"Set the MTU of the switch to {mtu} or more, or set `fabric_mtu` in group_data to the "
            "switch's maximum",
        )
    elif not reach.small:
        yield error(
            f"{name} ({address}) does not answer by {netdev}",
            f"The link is up but nothing passes: is the other end of the cable in {name}? "
            f"Look at a switch between, at `sudo iptables -S INPUT` on {name}, and reboot "
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


def record(link: FabricLink, own: FabricState, peer: FabricState, ports: Ends) -> dict[str, str]:
    """Return the record of a link, by which another cable end, address or MTU is recognized."""
    ends = [*link.interfaces, *link.peer_addresses, str(link.plan.mtu)]
    for state, port in zip((own, peer), ports, strict=True):
        ends += [state.netdevs[netdev].mac for netdev in port]
    return {"link": sha256(" ".join(ends).encode()).hexdigest()[:16]}


def measured(state: FabricState) -> dict[str, Any]:
    """Return a Spark's record: the last measurement, and those of all links by their peers."""
    try:
        found = read_json(state.record)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def speeds(state: FabricState) -> Iterator[tuple[str, float]]:
    """Yield the peers of all links that a Spark has measured, and Gb/s of both twins together."""
    links = measured(state).get("links")
    for peer, each in links.items() if isinstance(links, dict) else ():
        gbits = each.get("gbits") if isinstance(each, dict) else None
        if isinstance(gbits, list) and all(isinstance(n, int | float) for n in gbits):
            yield plain(peer), sum(gbits)


def with_record(state: FabricState, peer: str, made: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Spark's record with that of a link that was measured just now."""
    links = measured(state).get("links")
    return {"links": {**(links if isinstance(links, dict) else {}), peer: made}}


def slowest(found: Mapping[str, float]) -> str | None:
    """Say which link of a group has less than NOTABLE of the Gb/s of the fastest one, if any."""
    if not found:
        return None
    names, least, most = min(found, key=found.__getitem__), min(found.values()), max(found.values())
    if least >= NOTABLE * most:
        return None
    return (
        f"the slowest link is that of {names}: {least:.0f} Gb/s, where the fastest has {most:.0f}. "
        "All Sparks wait for it"
    )


def is_measured(state: FabricState, link: dict[str, str]) -> bool:
    """Tell whether this very link was measured, and found fast enough."""
    found = measured(state)
    links = found.get("links")
    each = [found, *(links.values() if isinstance(links, dict) else ())]
    return any(isinstance(one, dict) and one.get("link") == link["link"] for one in each)


def bandwidth_findings(
    link: FabricLink, port: Port, measured: Sequence[float | None]
) -> Iterator[Finding]:
    """Yield the faults that the measured Gb/s of each twin shows."""
    for netdev, value in zip(port, measured, strict=True):
        what = f"to {link.peer} by {netdev}"
        if value is None:
            remedy = "Run it by hand (`ib_write_bw --help`), or look at `dmesg | grep mlx5`"
            yield error(f"ib_write_bw {what} gave no result", remedy)
        elif value < link.plan.bandwidth_minimum:
            least = f"expected {link.plan.bandwidth_minimum:g} (fabric_bandwidth_minimum)"
            yield error(f"RDMA {what} reaches {value:.1f} Gb/s, {least}", STALE)
