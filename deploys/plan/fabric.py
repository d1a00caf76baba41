"""The fabric: a pair's own network over the ConnectX cable, and what its files say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from deploys.plan.errors import PlanError

GUARD = "fabric-guard.service"

# Host numbers of the two Sparks, in the order of their names. Head and worker may change places
# in the inventory: that leaves the network alone.
_NUMBERS = (11, 12)
# IPv4 in its smallest sensible packet, and the largest that ConnectX takes.
_MTU = range(1280, 9217)


@dataclass(frozen=True)
class FabricPlan:
    """The fabric as one Spark of a pair should have it.

    Attributes:
        addresses: own addresses, of the two twins in the order of `Hardware.fabric_ports`.
        peer_addresses: the other Spark's.
        prefixes: length of each twin's network prefix.
        bandwidth_minimum: Gb/s that RDMA must show on each twin.
    """

    spark: str
    peer: str
    addresses: tuple[str, str]
    peer_addresses: tuple[str, str]
    prefixes: tuple[int, int]
    mtu: int
    bandwidth_minimum: float

    @property
    def of_peer(self) -> FabricPlan:
        """The same fabric as the other Spark should have it."""
        return FabricPlan(
            spark=self.peer,
            peer=self.spark,
            addresses=self.peer_addresses,
            peer_addresses=self.addresses,
            prefixes=self.prefixes,
            mtu=self.mtu,
            bandwidth_minimum=self.bandwidth_minimum,
        )

    @property
    def interfaces(self) -> tuple[str, str]:
        """Own addresses with their prefix lengths."""
        (a, b), (length_a, length_b) = self.addresses, self.prefixes
        return (f"{a}/{length_a}", f"{b}/{length_b}")

    @property
    def networks(self) -> tuple[IPv4Network, IPv4Network]:
        """The subnet of each twin."""
        a, b = self.interfaces
        return (IPv4Network(a, strict=False), IPv4Network(b, strict=False))


def fabric_plan(
    spark: str,
    ranks: Sequence[str],
    subnets: Sequence[str],
    mtu: int,
    bandwidth_minimum: float,
) -> FabricPlan:
    """Return the plan of one Spark of a pair.

    Args:
        spark: its name.
        ranks: both names, the head first.
        subnets, mtu, bandwidth_minimum: `fabric_subnets`, `fabric_mtu` and
            `fabric_bandwidth_minimum` of the group data.

    Raises:
        PlanError: everything that is wrong with the group data.
    """
    problems = [*_subnet_problems(subnets)]
    if type(mtu) is not int or mtu not in _MTU:
        problems.append(
            f"group_data: fabric_mtu: found {mtu!r}; "
            f"expected a whole number from {_MTU.start} to {_MTU.stop - 1}"
        )
    if type(bandwidth_minimum) not in (int, float) or bandwidth_minimum < 0:
        problems.append(
            f"group_data: fabric_bandwidth_minimum: found {bandwidth_minimum!r}; "
            "expected Gb/s for each twin, such as 80"
        )
    if problems:
        raise PlanError(*problems)
    peer = next(name for name in ranks if name != spark)
    own, other = _NUMBERS if spark < peer else _NUMBERS[::-1]
    a, b = (IPv4Network(subnet) for subnet in subnets)
    return FabricPlan(
        spark=spark,
        peer=peer,
        addresses=(str(a[own]), str(b[own])),
        peer_addresses=(str(a[other]), str(b[other])),
        prefixes=(a.prefixlen, b.prefixlen),
        mtu=mtu,
        bandwidth_minimum=bandwidth_minimum,
    )


def arp_settings(port: Iterable[str]) -> dict[str, str]:
    """Return the kernel parameters that keep the twins apart: they are two ends of one socket.

    By default each would answer for the other's address as well, and packets for one would come in
    by the other. Public set-ups of Sparks pin the same values on these interfaces.
    """
    return {
        f"net.ipv4.conf.{netdev}.{key}": value
        for netdev in port
        for key, value in (("arp_ignore", "1"), ("arp_announce", "2"))
    }


def netplan_text(plan: FabricPlan, port: tuple[str, str]) -> str:
    """Return what `NETPLAN` must say for the twins of the cabled port.

    It names no renderer: the system's own choice holds. `optional` lets a Spark boot without the
    cable.
    """
    lines = ["# Made by Sparkwright; a change here is undone.", "network:", "  version: 2"]
    lines.append("  ethernets:")
    for netdev, interface in zip(port, plan.interfaces, strict=True):
        lines += [
            f"    {netdev}:",
            "      optional: true",
            "      dhcp4: false",
            "      dhcp6: false",
            "      accept-ra: false",
            "      link-local: []",
            f"      mtu: {plan.mtu}",
            f"      addresses: [{interface}]",
        ]
    return "\n".join([*lines, ""])


def _subnet_problems(subnets: Sequence[str]) -> Iterator[str]:
    where = "group_data: fabric_subnets: found"
    if isinstance(subnets, str) or not isinstance(subnets, Sequence) or len(subnets) != 2:
        yield f"{where} {subnets!r}; expected two IPv4 subnets, one for each twin"
        return
    networks = []
    for subnet in subnets:
        try:
            network = IPv4Network(subnet)
        except ValueError as error:
            yield f"{where} {subnet!r} ({error}); expected a subnet such as 192.168.100.0/24"
            continue
        networks.append(network)
        if network.num_addresses <= _NUMBERS[-1] + 1:
            yield f"{where} {subnet}; expected room for host {_NUMBERS[-1]}, as in a /24"
        if network.is_loopback or network.is_multicast or network.is_link_local:
            yield f"{where} {subnet}; expected private addresses, such as 192.168.100.0/24"
    if len(networks) == 2 and networks[0].overlaps(networks[1]):
        yield f"{where} {subnets[0]} and {subnets[1]}, which overlap; expected two apart"
