"""The listeners of a Spark: which are ours, where they may listen, and whose the rest is."""

import re
from collections.abc import Collection, Iterator
from ipaddress import ip_address
from typing import ClassVar, Literal

from sparkwright.common.part import Bounded, Part
from sparkwright.common.placed import EXPORTER
from sparkwright.common.ports import (
    EXPORTER_PORT,
    IMAGE_PORT,
    LINK_PORT,
    METRICS_PORT,
    RECORDER_PORT,
    SHARE_PORT,
)
from sparkwright.door.door import UNIT as DOOR
from sparkwright.plan.release.container import ALONE, PAIR
from sparkwright.run.spark import Declared

# Our units that listen, but for engines. systemd itself holds a socket unit's socket at first.
_SEAT_DOOR, _SUPERVISOR, _EXPORTER = "door@", "vllm@", f"{EXPORTER}.service"
_GATEWAY = ("gateway.service", "gateway-door.service")
_SOCKETS = {"fabric-share": SHARE_PORT, "fabric-metrics": METRICS_PORT, "fabric-image": IMAGE_PORT}
_PORTS = {**_SOCKETS, _SUPERVISOR: LINK_PORT, "image-copy.": IMAGE_PORT}
_PORTS |= {"flight-recorder.": RECORDER_PORT}
_JOBS = ("weights@", "image@", "image-build@", "benchmark.")
_UNITS = (DOOR, _SEAT_DOOR, _EXPORTER, *_GATEWAY, *_PORTS, "switch@", *_JOBS)
# The programs with which Ubuntu or Debian listens (15 characters, as the kernel keeps them), and
# the ports of each; none means any.
_ANY_PORT = "sshd systemd-timesyn avahi-daemon cups-browsed rpcbind containerd dockerd"
_SYSTEM: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_ANY_PORT.split(), ()),
    **dict.fromkeys(("systemd-network", "NetworkManager", "dhclient", "dhcpcd"), (68, 546)),
    "systemd-resolve": (53, 5353, 5355),
    "chronyd": (123, 323),
    "ntpd": (123,),
    "cupsd": (631,),
    "dnsmasq": (53, 67),
}
# Stands for a program's name that has quotes, line feeds or the like: it can only be to mislead.
DISGUISED = "a program that hides its name"
_NAME = re.compile(r"[\w .:@/+-]*")


class Process(Bounded):
    """A process that holds a socket, by the name that it chose, and its control group."""

    pid: int
    command: str
    cgroup: str


class Socket(Bounded):
    """One socket, tcp or udp, that others can send to; the kernel's has no processes."""

    kind: str
    address: str
    port: int
    processes: tuple[Process, ...]

    def __str__(self) -> str:
        who = "/".join(self.programs) or "the kernel"
        address = "*" if self.address in ("0.0.0.0", "::") else self.address
        return f"{who} on {address} port {self.port}/{self.kind}"

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of its processes; `DISGUISED` stands for what is no name."""
        names = (each.command for each in self.processes)
        return tuple(dict.fromkeys(each if _NAME.fullmatch(each) else DISGUISED for each in names))

    @property
    def groups(self) -> tuple[str, ...]:
        """The control groups of its processes."""
        return tuple(dict.fromkeys(each.cgroup for each in self.processes))

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine reaches it."""
        try:
            address = ip_address(self.address)
        except ValueError:
            return False
        return bool((getattr(address, "ipv4_mapped", None) or address).is_loopback)


class Listening(Part):
    """All sockets on a Spark, and the ids of our engines' containers that run."""

    part: ClassVar = "sockets"

    sockets: tuple[Socket, ...]
    engines: tuple[str, ...]


LISTENING = Listening.ask()
# `ours` is on the list; `astray` is ours, or hides whose it is, and is not on the list; `system` is
# the operating system's; `other` is somebody else's.
Kind = Literal["ours", "astray", "system", "other"]


def judged(listening: Listening, may: Declared) -> Iterator[tuple[Socket, Kind]]:
    """Yield each socket with whose it is, by the list of ours that may listen beyond loopback."""
    for socket in listening.sockets:
        yield socket, _kind(socket, listening.engines, may)


def _kind(socket: Socket, engines: Collection[str], may: Declared) -> Kind:
    if any(_is_guarded(g) or _is_engines(g, engines) for g in socket.groups):
        # The guard closes what an engine opens beyond loopback.
        guarded = socket.is_loopback or all(map(_is_guarded, socket.groups))
        return "ours" if guarded else "astray"
    if ours := _unit_of(socket):
        return "ours" if _may(socket, ours, may) else "astray"
    if DISGUISED in socket.programs:
        return "astray"
    ports = [_SYSTEM.get(program) for program in socket.programs]
    is_systems = all(own is not None and (not own or socket.port in own) for own in ports)
    return "system" if ports and is_systems else "other"


def _is_guarded(group: str) -> bool:
    return group.startswith((f"/{ALONE}/", f"/{PAIR}/"))


def _is_engines(group: str, engines: Collection[str]) -> bool:
    return any(engine in group for engine in engines)


def _unit_of(socket: Socket) -> str | None:
    """Return the unit of ours that a socket belongs to; None where it is not ours."""
    if socket.programs == ("systemd",) and socket.port in _SOCKETS.values():
        return next(unit for unit, port in _SOCKETS.items() if port == socket.port)
    units = {part for group in socket.groups for part in group.split("/")}
    return next((name for name in _UNITS for unit in units if unit.startswith(name)), None)


def _may(socket: Socket, unit: str, may: Declared) -> bool:
    """Tell whether a socket of a unit of ours is on the list."""
    if unit in (DOOR, _SEAT_DOOR):
        return socket.kind == "tcp" and socket.port in may.doors
    if unit == _EXPORTER:
        return socket.is_loopback and socket.port == EXPORTER_PORT
    if unit in _GATEWAY:
        # The gateway's port is data of its own host, which is a Spark only by chance.
        return socket.kind == "tcp"
    declared = socket.address in may.fabric and socket.port == _PORTS.get(unit)
    return socket.is_loopback or declared


def unguarded(listening: Listening) -> list[str]:
    """Return the control groups in which an engine of ours listens without its guard."""
    groups = {group for socket in listening.sockets for group in socket.groups}
    return sorted(g for g in groups if not _is_guarded(g) and _is_engines(g, listening.engines))


def astray(listening: Listening, may: Declared) -> list[str]:
    """Describe each socket of ours that is not on the list."""
    return [str(socket) for socket, kind in judged(listening, may) if kind == "astray"]


def others(listening: Listening, may: Declared) -> list[str]:
    """Describe the sockets of other programs beyond loopback."""
    foreign = (socket for socket, kind in judged(listening, may) if kind == "other")
    return sorted({str(socket) for socket in foreign if not socket.is_loopback})
