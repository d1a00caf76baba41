"""The plan of the fabric, a group's own network over ConnectX cables, and its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Network

from sparkwright.common.errors import PlanError
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import render
from sparkwright.declared.fleet.setting_values import HOST_NUMBERS
from sparkwright.declared.fleet.settings import Settings

GUARD = "fabric-guard.service"
_NETPLAN = HOST_FILES / "network/fabric/60-sparkwright-fabric.yaml.j2"
_RING = 3


@dataclass(frozen=True)
class Cable:
    """A cable between two Sparks, or a switch with more: its Sparks, and a subnet for each twin.

    The order of the Sparks' names gives their numbers: the network stays the same if head and
    worker change places in the inventory.
    """

    sparks: tuple[str, ...]
    networks: tuple[IPv4Network, ...]

    def addresses(self, spark: str) -> tuple[str, ...]:
        """Return the addresses of a Spark, of each twin."""
        number = HOST_NUMBERS[self.sparks.index(spark)]
        return tuple(str(network[number]) for network in self.networks)

    def interfaces(self, spark: str) -> tuple[str, ...]:
        """Return these with their prefix lengths."""
        pairs = zip(self.addresses(spark), self.networks, strict=True)
        return tuple(f"{address}/{network.prefixlen}" for address, network in pairs)


@dataclass(frozen=True)
class FabricPlan:
    """The fabric as one Spark of a group should have it.

    In a ring each Spark has two cables. Its first address is the one by which it is known: where a
    neighbor is not on that cable, a route leads there by the cable between the two.

    Attributes:
        sparks: All Sparks of the group, itself among them.
        subnets: of the two twins, in the order of `Hardware.fabric_ports`.
        bandwidth_minimum: Gb/s that RDMA must show on each twin.
        ring: Three Sparks, each joined to both others by a cable of its own; else all share one
            network, by the cable of two or by a switch.
        whole: The Sparks by which addresses are numbered, where some of them are lost: whoever
            comes back finds nobody at his own.
    """

    spark: str
    sparks: tuple[str, ...]
    subnets: tuple[str, str]
    mtu: int
    bandwidth_minimum: float
    ring: bool = False
    whole: tuple[str, ...] = ()

    def of(self, spark: str) -> FabricPlan:
        """Return the same fabric as another Spark should have it."""
        return replace(self, spark=spark)

    def link(self, peer: str) -> FabricLink:
        """Return the part between this Spark and another one."""
        return FabricLink(self, peer)

    @property
    def peers(self) -> tuple[str, ...]:
        """The other Sparks, in the order of their names."""
        return tuple(sorted({*self.sparks} - {self.spark}))

    @property
    def links(self) -> Iterator[FabricLink]:
        """The parts between this Spark and each other one."""
        return map(self.link, self.peers)

    @property
    def networks(self) -> tuple[IPv4Network, ...]:
        """The network of each twin, in which all addresses of the group are."""
        return tuple(map(IPv4Network, self.subnets))

    @cached_property
    def cables(self) -> tuple[Cable, ...]:
        """The Spark's own cables: one, or in a ring that to the next Spark and that to the last."""
        names = tuple(sorted(self.whole or self.sparks))
        if not self.ring:
            return (Cable(names, self.networks),)
        own = names.index(self.spark)
        both = (self._of_ring(names, place % _RING) for place in (own, own - 1))
        return tuple(each for each in both if {*each.sparks} <= {*self.sparks})

    def _of_ring(self, names: Sequence[str], place: int) -> Cable:
        """Return a cable of the ring: it has its own quarter of either subnet."""
        ends = sorted((names[place], names[(place + 1) % _RING]))
        quarters = ([*network.subnets(2)][place] for network in self.networks)
        return Cable(tuple(ends), tuple(quarters))

    @property
    def addresses(self) -> tuple[str, ...]:
        """Own addresses: of each cable, of each twin."""
        return tuple(each for cable in self.cables for each in cable.addresses(self.spark))

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """Those of all other Sparks."""
        return tuple(each for peer in self.peers for each in self.of(peer).addresses)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Own addresses with their prefix lengths."""
        return tuple(each for cable in self.cables for each in cable.interfaces(self.spark))

    @property
    def routes(self) -> Iterator[tuple[int, str, str]]:
        """The routes to Sparks by a cable on which they are not known: interface, to, via."""
        for link in self.links:
            if link.known_address not in link.peer_addresses:
                yield 2 * link.place, f"{link.known_address}/32", link.peer_addresses[0]


@dataclass(frozen=True)
class FabricLink:
    """The fabric between a Spark and another one, its peer."""

    plan: FabricPlan
    peer: str

    @property
    def spark(self) -> str:
        """The Spark whose end this is."""
        return self.plan.spark

    @property
    def of_peer(self) -> FabricLink:
        """The same link as the peer has it."""
        return FabricLink(self.plan.of(self.peer), self.spark)

    @property
    def place(self) -> int:
        """The number of its cable among the Spark's own."""
        return next(n for n, cable in enumerate(self.plan.cables) if self.peer in cable.sparks)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Own addresses on it, of each twin."""
        return self.plan.cables[self.place].addresses(self.spark)

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Own addresses on it with their prefix lengths."""
        return self.plan.cables[self.place].interfaces(self.spark)

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """The peer's addresses on it, of each twin."""
        return self.plan.cables[self.place].addresses(self.peer)

    @property
    def known_address(self) -> str:
        """The address by which the peer is known."""
        return self.plan.of(self.peer).addresses[0]

    @property
    def reached(self) -> tuple[tuple[int, str], ...]:
        """The peer's addresses to which packets go by it, each with its twin's number."""
        known = () if self.known_address in self.peer_addresses else ((0, self.known_address),)
        return (*enumerate(self.peer_addresses), *known)


def fabric_of(
    spark: str, sparks: Sequence[str], settings: Settings, whole: Sequence[str] = ()
) -> FabricPlan | None:
    """Return the plan of a Spark of a group, of the `whole` one or not; None for one on its own.

    A switch is the way for four: NCCL's trees join Sparks that are opposite in a ring, and RDMA
    does not follow a route over another Spark. Those who run such rings patch NCCL
    (FujitsuPolycom/sparkring#218).

    Raises:
        PlanError: it cannot be carried out: a setting does not fit the number of Sparks.
    """
    number = len(whole or sparks)
    if len(sparks) < 2:
        return None
    if settings.fabric_ring and number > _RING:
        raise PlanError(
            f"fabric_ring: found True for {number} Sparks ({', '.join(whole or sparks)}); expected "
            "it for three: in a larger ring opposite Sparks have no cable, and NCCL needs one "
            "between any two. Put them on a switch, and leave fabric_ring out"
        )
    plan = FabricPlan(
        spark=spark,
        sparks=tuple(sparks),
        subnets=settings.fabric_subnets,
        mtu=settings.fabric_mtu,
        bandwidth_minimum=settings.fabric_bandwidth_minimum,
        ring=settings.fabric_ring and number == _RING,
        whole=tuple(whole),
    )
    parts, last = (4, HOST_NUMBERS[1]) if plan.ring else (1, HOST_NUMBERS[number - 1])
    largest = 32 - (parts * (last + 2) - 1).bit_length()
    if small := [str(each) for each in plan.networks if each.prefixlen > largest]:
        raise PlanError(
            f"fabric_subnets: found {small[0]} for {number} Sparks{' in a ring' * plan.ring}; "
            f"expected a /{largest} or larger"
        )
    return plan


def arp_settings(netdevs: Iterable[str]) -> dict[str, str]:
    """Return the kernel parameters that keep the twins apart: they are two ends of one socket.

    By default each would answer for the other's address as well, and receive its packets.
    """
    return {
        f"net.ipv4.conf.{netdev}.{key}": value
        for netdev in netdevs
        for key, value in (("arp_ignore", "1"), ("arp_announce", "2"))
    }


def netplan_text(plan: FabricPlan, netdevs: Sequence[str]) -> str:
    """Return the netplan file for the twins of the cabled ports, in the order of the cables.

    It names no renderer: the system's own choice holds. A Spark boots without the cable, too.
    """
    twins = [
        (netdev, interface, [(to, via) for number, to, via in plan.routes if number == place])
        for place, (netdev, interface) in enumerate(zip(netdevs, plan.interfaces, strict=True))
    ]
    return render(_NETPLAN, mtu=plan.mtu, twins=twins)


def neighbors(ranks: Sequence[str], spark: str) -> tuple[str, str]:
    """Return from whom a Spark copies weights and image, and who copies from it; "" for nobody.

    Each passes on what it has of a file while the rest comes. So no card carries anything twice,
    and eight Sparks take little longer than two.
    """
    line = ["", *ranks, ""]
    place = line.index(spark)
    return line[place - 1], line[place + 1]


def meetings(sparks: Iterable[str]) -> list[dict[str, str]]:
    """Return rounds in which each two Sparks meet once, and nobody is in two places at once.

    One stays, and the others move on by a place from round to round.
    """
    first, *rest = sorted(sparks)
    # With an odd number, who would meet nobody rests.
    rest += [""] * (len(rest) % 2 == 0)
    found = []
    for turn in range(len(rest)):
        row = [first, *rest[turn:], *rest[:turn]]
        pairs = [(row[n], row[-1 - n]) for n in range(len(row) // 2)]
        found.append({a: b for one, other in pairs for a, b in ((one, other), (other, one))})
    return [{a: b for a, b in each.items() if a and b} for each in found]
