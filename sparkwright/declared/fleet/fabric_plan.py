"""The plan of the fabric, a pair's own network over the ConnectX cable, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from sparkwright.declared.fleet.setting_values import HOST_NUMBERS

GUARD = "fabric-guard.service"


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
        return replace(
            self,
            spark=self.peer,
            peer=self.spark,
            addresses=self.peer_addresses,
            peer_addresses=self.addresses,
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
    """Return the plan of one Spark of a pair; `ranks` are both names, the head first."""
    peer = next(name for name in ranks if name != spark)
    own, other = HOST_NUMBERS if spark < peer else HOST_NUMBERS[::-1]
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

    By default each would answer for the other's address as well, and receive its packets. Public
    set-ups of Sparks have the same values on these interfaces.
    """
    return {
        f"net.ipv4.conf.{netdev}.{key}": value
        for netdev in port
        for key, value in (("arp_ignore", "1"), ("arp_announce", "2"))
    }


def netplan_text(plan: FabricPlan, port: tuple[str, str]) -> str:
    """Return the netplan file for the twins of the cabled port.

    It names no renderer: the system's own choice holds. `optional` lets a Spark boot without the
    cable.
    """
    twins = (
        f"""\
    {netdev}:
      optional: true
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
      mtu: {plan.mtu}
      addresses: [{interface}]
"""
        for netdev, interface in zip(port, plan.interfaces, strict=True)
    )
    return f"""\
# Made by Sparkwright; a change here is undone.
network:
  version: 2
  ethernets:
{"".join(twins)}"""
