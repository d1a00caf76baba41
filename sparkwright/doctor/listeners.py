"""The listeners of a Spark: which are ours, where they may listen, and whose the rest is."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from sparkwright.common.host_output import sections, sections_script
from sparkwright.common.ports import EXPORTER_PORT, LINK_PORT, METRICS_PORT, SHARE_PORT
from sparkwright.door.door import UNIT as DOOR
from sparkwright.monitoring.node_exporter import EXPORTER
from sparkwright.release.guard import ALONE
from sparkwright.run.spark import Declared

# By unit: all of ours that listen, but for engines. What a socket unit holds is systemd's at first.
_SUPERVISOR, _GATEWAY = "vllm@", ("gateway.service", "gateway-door.service")
_UNITS = (DOOR, EXPORTER, *_GATEWAY, "fabric-share", "fabric-metrics", _SUPERVISOR, "switch@")
_JOBS = ("weights@", "image@", "image-copy.", "image-build@", "image-export@", "benchmark.")

# What a system of Ubuntu's or Debian's listens with, by program (15 characters, as the kernel keeps
# it), and the ports that are its own; none named means any.
_SYSTEM: dict[str, tuple[int, ...]] = {
    "sshd": (),
    "systemd-resolve": (53, 5353, 5355),
    "systemd-network": (68, 546),
    "systemd-timesyn": (),
    "NetworkManager": (68, 546),
    "dhclient": (68, 546),
    "dhcpcd": (68, 546),
    "chronyd": (123, 323),
    "ntpd": (123,),
    "avahi-daemon": (),
    "cupsd": (631,),
    "cups-browsed": (631,),
    "dnsmasq": (53, 67),
    "rpcbind": (111,),
    "containerd": (),
    "dockerd": (),
}


# A program whose name has quotes, line feeds or the like, which none has but to mislead.
DISGUISED = "a program that hides its name"


@dataclass(frozen=True)
class Socket:
    """One socket that others can send to.

    Attributes:
        protocol: tcp or udp.
        address: it is bound to; `*` for all.
        port: number.
        programs: names of the processes that hold it; none where the kernel does. Each process
            chooses its own: `DISGUISED` stands for what is no name.
        groups: their control groups, such as /system.slice/ssh.service.
    """

    protocol: str
    address: str
    port: int
    programs: tuple[str, ...]
    groups: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a few words."""
        who = "/".join(self.programs) or "the kernel"
        return f"{who} on {self.address} port {self.port}/{self.protocol}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine reaches it."""
        address = re.sub(r"%.*|[\[\]]", "", self.address)
        if self.address.endswith("%lo"):
            return True
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return bool((mapped or found).is_loopback)


@dataclass(frozen=True)
class Listening:
    """All that listens on a Spark.

    Attributes:
        sockets: each.
        engines: ids of our engines' containers that run.
    """

    sockets: tuple[Socket, ...]
    engines: tuple[str, ...]


@dataclass(frozen=True)
class Judged:
    """A socket, and what is to be said of it.

    Attributes:
        kind: `ours` is on the list, `astray` is ours, or hides whose it is, and not on it,
            `system` is the system's, `other` is somebody else's.
    """

    socket: Socket
    kind: Literal["ours", "astray", "system", "other"]


def listeners_script() -> str:
    """Return the POSIX shell script that reads it all; it only reads, and exits 0."""
    parts = {
        "sockets": "ss -Hltnup | grep -E '^(tcp|udp) '",
        "groups": "ss -Hltnup | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u | "
        "while read -r pid; do echo \"$pid $(sed -n 's/^0:://p' /proc/$pid/cgroup)\"; done",
        "engines": "docker ps --no-trunc --quiet --filter label=sparkwright.release",
    }
    return sections_script(parts)


def parse_listeners(output: Iterable[str]) -> Listening:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a section is missing or malformed.
    """
    found = sections(output)
    try:
        groups = dict(line.split(" ", 1) for line in found["groups"] if " " in line)
        lines = [line.split(None, 6) for line in found["sockets"]]
        return Listening(
            sockets=tuple(_socket(fields, groups) for fields in lines if len(fields) > 5),
            engines=tuple(filter(None, found["engines"])),
        )
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(f"what listens is unreadable: {error!r}") from error


_HOLDER = r'\("([\w .:@/+-]*)",pid=(\d+),fd=\d+\)'
_HOLDERS = re.compile(rf"users:\({_HOLDER}(?:,{_HOLDER})*\)")


def _socket(fields: Sequence[str], groups: dict[str, str]) -> Socket:
    address, _, port = fields[4].rpartition(":")
    users = fields[6].strip() if len(fields) > 6 else ""
    if _HOLDERS.fullmatch(users) or not users:
        programs = tuple(dict.fromkeys(name for name, _ in re.findall(_HOLDER, users)))
    else:
        programs = (DISGUISED,)
    return Socket(
        protocol=fields[0],
        address="*" if address in ("0.0.0.0", "[::]", "*") else address,
        port=int(port),
        programs=programs,
        groups=tuple(dict.fromkeys(groups.get(pid, "") for pid in re.findall(r"pid=(\d+)", users))),
    )


def judged(found: Listening, may: Declared) -> Iterator[Judged]:
    """Judge each socket.

    Args:
        found: what listens.
        may: what of ours may listen beyond loopback.
    """
    for socket in found.sockets:
        units = {part for group in socket.groups for part in group.split("/")}
        if _is_engines(socket, found.engines):
            # What an engine opens beyond loopback, its guard closes.
            guarded = socket.is_loopback or all(f"/{ALONE}/" in group for group in socket.groups)
            yield Judged(socket, "ours" if guarded else "astray")
        elif ours := _ours(socket, units):
            yield Judged(socket, "ours" if _may(socket, ours, may) else "astray")
        elif DISGUISED in socket.programs:
            yield Judged(socket, "astray")
        elif _is_systems(socket):
            yield Judged(socket, "system")
        else:
            yield Judged(socket, "other")


def _is_engines(socket: Socket, engines: Collection[str]) -> bool:
    return any(
        f"/{ALONE}/" in group or any(engine in group for engine in engines)
        for group in socket.groups
    )


def _ours(socket: Socket, units: Collection[str]) -> str | None:
    """Return which of our units a socket is of."""
    if socket.programs == ("systemd",) and socket.port in (SHARE_PORT, METRICS_PORT):
        return "fabric-share" if socket.port == SHARE_PORT else "fabric-metrics"
    names = (*_UNITS, *_JOBS)
    return next((name for name in names for unit in units if unit.startswith(name)), None)


def _may(socket: Socket, unit: str, may: Declared) -> bool:
    """Tell whether a socket of a unit of ours is on the list."""
    on_fabric = socket.address in may.fabric
    ports = {"fabric-share": SHARE_PORT, "fabric-metrics": METRICS_PORT, _SUPERVISOR: LINK_PORT}
    if unit == DOOR:
        return socket.protocol == "tcp" and socket.port == may.door
    if unit == EXPORTER:
        return socket.is_loopback and socket.port == EXPORTER_PORT
    if unit in _GATEWAY:
        # Its port is its own group's, whose hosts are Sparks only by chance.
        return socket.protocol == "tcp"
    return socket.is_loopback or (on_fabric and socket.port == ports.get(unit))


def _is_systems(socket: Socket) -> bool:
    return bool(socket.programs) and all(
        program in _SYSTEM and (not _SYSTEM[program] or socket.port in _SYSTEM[program])
        for program in socket.programs
    )


def unguarded(found: Listening) -> list[str]:
    """Return the control groups in which an engine of ours listens without its guard."""
    groups = {
        group
        for socket in found.sockets
        for group in socket.groups
        if f"/{ALONE}/" not in group and any(engine in group for engine in found.engines)
    }
    return sorted(groups)


def astray(found: Listening, may: Declared) -> list[str]:
    """Say of each socket of ours that is not on the list what it is.

    Args: as `judged`.
    """
    return [str(each.socket) for each in judged(found, may) if each.kind == "astray"]


def others(found: Listening, may: Declared) -> list[str]:
    """Say what of somebody else's listens on other addresses than loopback.

    Args: as `judged`.
    """
    kept = (each.socket for each in judged(found, may) if each.kind == "other")
    return sorted({str(socket) for socket in kept if not socket.is_loopback})
