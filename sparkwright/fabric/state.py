"""The fabric of a Spark, as found."""

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network


@dataclass(frozen=True)
class Probe:
    """A packet of full size to send to the peer, by one twin."""

    netdev: str
    address: str
    mtu: int


@dataclass(frozen=True)
class Netdev:
    """A network interface.

    Attributes:
        up: switched on; `carrier` says whether there is a link as well.
        speed: Mb/s; None when it is not known.
    """

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
    """The RDMA device of an interface.

    Attributes:
        state: "ACTIVE" when it can be used.
        gids: for each filled entry of the GID table its index, GID and type, as sysfs has them.
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


@dataclass(frozen=True)
class FabricState:
    """A Spark's fabric, as found.

    Attributes:
        netdevs: those of the interfaces asked for that there are.
        addresses: of all interfaces.
        rdma: by interface.
        tool: `ib_write_bw` is installed.
        record: what we wrote after the last measurement; "" = never.
        guarded: the firewall's rules are in force.
        reach: by the peer's address; None when the Spark has no `ping`.
    """

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
