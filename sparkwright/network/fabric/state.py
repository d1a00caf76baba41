"""The fabric of a Spark, as it is there."""

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from typing import ClassVar

from sparkwright.common.part import Part

# Seconds for which one side waits for the other, and for a measurement.
MEASURING = 60
# A port of the card: the names of its two interfaces, the twins.
Port = tuple[str, str]
# The ports of a Spark's cables, in the order of its plan.
Ports = tuple[Port, ...]
# The ports at both ends of a link, its own first.
Ends = tuple[Port, Port]
# A packet of full size: by which twin, to which address, of how many bytes.
Probe = tuple[str, str, int]


@dataclass(frozen=True)
class Netdev:
    """A network interface: switched on (`up`), with a link (`carrier`), and its Mb/s if known."""

    up: bool
    carrier: bool
    speed: int | None
    mtu: int
    mac: str


@dataclass(frozen=True)
class Route:
    """A route that leaves by an interface; `network` None is the default route."""

    netdev: str
    network: IPv4Network | None


@dataclass(frozen=True)
class NetplanFile:
    """A file that netplan merges; `mode` as in "root:600", secrets in `text` are hidden."""

    path: str
    mode: str
    text: str


@dataclass(frozen=True)
class Profile:
    """A connection profile of NetworkManager's own, and what it is bound to ("" = nothing)."""

    path: str
    netdev: str
    mac: str


@dataclass(frozen=True)
class Rdma:
    """The RDMA device of an interface, which can be used when its state is "ACTIVE".

    `gids` are the filled entries of its GID table: index, GID and type, as sysfs has them.
    """

    device: str
    port: str
    state: str
    link_layer: str
    gids: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Reach:
    """The result of a `Probe`: the interface of the route, and the MAC address that answered."""

    route: str
    full: bool
    small: bool
    mac: str


class FabricState(Part):
    """A Spark's fabric, as found.

    Attributes:
        netdevs: Those of the requested interfaces that exist.
        tool: `ib_write_bw` is installed.
        record: Our record of the last measurement; "" = never measured.
        guarded: The firewall's rules are in force.
        reach: By the peer's address; None when the Spark has no `ping`.
    """

    part: ClassVar = "network.fabric"

    netdevs: dict[str, Netdev]
    addresses: tuple[tuple[str, IPv4Interface], ...]
    routes: tuple[Route, ...]
    netplan: tuple[NetplanFile, ...]
    profiles: tuple[Profile, ...]
    rdma: dict[str, Rdma]
    tool: bool
    record: str
    guarded: bool
    reach: dict[str, Reach] | None


class Neighbors(Part):
    """The MAC addresses that answer at each interface, whoever is asked for there."""

    part: ClassVar = "network.neighbors"

    heard: dict[str, tuple[str, ...]]


class WriteBandwidth(Part):
    """Gb/s of RDMA writes to the peer by one twin; None when the test did not run."""

    part: ClassVar = "network.write_bandwidth"
    # For the peer, for the measurement, and for a program that is slow to end.
    patience: ClassVar = 2 * MEASURING

    gbits: float | None
