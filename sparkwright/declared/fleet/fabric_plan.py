"""The plan of the fabric, a pair's own network over the ConnectX cable, and its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import render
from sparkwright.declared.fleet.setting_values import HOST_NUMBERS

GUARD = "fabric-guard.service"
_NETPLAN = HOST_FILES / "network/fabric/60-sparkwright-fabric.yaml.j2"


@dataclass(frozen=True)
class FabricPlan:
    """The fabric as one Spark of a pair should have it.

    Attributes:
        subnets: of the two twins, in the order of `Hardware.fabric_ports`.
        bandwidth_minimum: Gb/s that RDMA must show on each twin.
    """

    spark: str
    peer: str
    subnets: tuple[str, str]
    mtu: int
    bandwidth_minimum: float

    @property
    def of_peer(self) -> FabricPlan:
        """The same fabric as the other Spark should have it."""
        return replace(self, spark=self.peer, peer=self.spark)

    @property
    def networks(self) -> tuple[IPv4Network, IPv4Network]:
        """The subnet of each twin."""
        a, b = self.subnets
        return IPv4Network(a), IPv4Network(b)

    @property
    def addresses(self) -> tuple[str, str]:
        """Own addresses, of each twin."""
        number = HOST_NUMBERS[0 if self.spark < self.peer else 1]
        a, b = (str(network[number]) for network in self.networks)
        return a, b

    @property
    def peer_addresses(self) -> tuple[str, str]:
        """The other Spark's."""
        return self.of_peer.addresses

    @property
    def interfaces(self) -> tuple[str, str]:
        """Own addresses with their prefix lengths."""
        pairs = zip(self.addresses, self.networks, strict=True)
        a, b = (f"{address}/{network.prefixlen}" for address, network in pairs)
        return a, b


def arp_settings(port: Iterable[str]) -> dict[str, str]:
    """Return the kernel parameters that keep the twins apart: they are two ends of one socket.

    By default each would answer for the other's address as well, and receive its packets.
    """
    return {
        f"net.ipv4.conf.{netdev}.{key}": value
        for netdev in port
        for key, value in (("arp_ignore", "1"), ("arp_announce", "2"))
    }


def netplan_text(plan: FabricPlan, port: tuple[str, str]) -> str:
    """Return the netplan file for the twins of the cabled port.

    It names no renderer: the system's own choice holds. A Spark boots without the cable, too.
    """
    twins = zip(port, plan.interfaces, strict=True)
    return render(_NETPLAN, mtu=plan.mtu, twins=twins)
