"""The fabric of a Spark, read by one shell script."""

import shlex
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network

from sparkwright.common.host_output import read_json, sections, sections_script


@dataclass(frozen=True)
class Probe:
    """A packet of full size to the peer's address, by one twin."""

    netdev: str
    address: str
    mtu: int


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


@dataclass(frozen=True)
class FabricState:
    """A Spark's fabric, as found.

    Attributes:
        netdevs: Those of the requested interfaces that exist.
        addresses: Of all interfaces.
        rdma: By interface.
        tool: `ib_write_bw` is installed.
        record: Our record of the last measurement; "" = never measured.
        guarded: The firewall's rules are in force.
        reach: By the peer's address; None when the Spark has no `ping`.
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


def fabric_script(
    *, netdevs: Sequence[str], root: str, probes: Sequence[Probe] = (), tree: str = ""
) -> str:
    """Return the POSIX shell script that reads the state of the fabric, and always exits 0.

    An empty section stands for something absent. Secrets in a netplan file (Wi-Fi) stay on the
    Spark.

    Args:
        netdevs: The interfaces that may be the fabric's.
        probes: Packets to send; they take half a second if all is well, five at most.
        tree: The folder that replaces / in tests.
    """
    names = " ".join(map(shlex.quote, netdevs))
    tests = " ".join(
        f"probe {shlex.quote(probe.netdev)} {probe.address} {probe.mtu - 28} &" for probe in probes
    )
    parts = {
        "netdevs": f"for name in {names}; do {_NETDEV}; done",
        "addresses": "ip -j -4 address",
        "routes": "ip -j -4 route; ip -j -6 route show default",
        "netplan": _NETPLAN,
        "profiles": _PROFILES,
        "rdma": _RDMA,
        "tool": "command -v ib_write_bw",
        "record": f'cat "$tree"{shlex.quote(root)}/state/fabric.json',
        "guard": _GUARD,
        "probes": f"{_PROBE}\n{tests} wait" if probes else "true",
    }
    return "\n".join([f"tree={shlex.quote(tree)}", _READ, sections_script(parts)])


_GUARD = """
iptables -w -C INPUT -j SPARKWRIGHT || exit
[ ! -e /proc/net/if_inet6 ] || ip6tables -w -C INPUT -j SPARKWRIGHT || exit
echo yes"""

# A carrier cannot be read while the interface is switched off.
_READ = 'value() { found=; { read -r found < "$1"; } 2>/dev/null; printf "%s " "${found:--}"; }'
_NETDEV = """
folder=$tree/sys/class/net/$name; [ -e "$folder" ] || continue
printf '%s ' "$name"
for key in flags carrier speed mtu address; do value "$folder/$key"; done; echo"""

# A secret ends with its line, or with its entry in braces.
_NETPLAN = r"""
key='(password|psk|secret|private|shared|key)'
line="s/^([[:space:]]*[^:{[:space:]]*$key[^:]*:)[[:space:]]+[^[:space:]].*/\\1 hidden/"
entry="s/($key[^:]*:[[:space:]]*)(\"[^\"]*\"|'[^']*'|[^},[:space:]][^},]*)/\\1hidden/g"
for file in "$tree"/etc/netplan/*.yaml "$tree"/run/netplan/*.yaml "$tree"/usr/lib/netplan/*.yaml
do
  [ -f "$file" ] || continue
  text=$(sed -E -e "$line" -e "$entry" "$file" | base64 -w 0)
  echo "$(stat -c %U:%a "$file") ${text:--} ${file#"$tree"}"
done"""

_PROFILES = r"""
key() { sed -n "s/^$1=//p" "$file" | head -n 1; }
for file in "$tree"/etc/NetworkManager/system-connections/*; do
  [ -f "$file" ] || continue
  printf '%s\t%s\t%s\n' "$(key interface-name)" "$(key mac-address)" "${file#"$tree"}"
done"""

_RDMA = r"""
for port in "$tree"/sys/class/infiniband/*/ports/*; do
  [ -d "$port" ] || continue
  device=${port%/ports/*}
  for folder in "$device"/device/net/*; do
    state=$(cat "$port/state"); link=$(cat "$port/link_layer")
    echo "port ${device##*/} ${port##*/} ${folder##*/} ${state#*: } ${link:--}"
    (cd "$port/gids" && grep -Hv '^[0:]*$' *) | while IFS=: read -r index gid; do
      echo "gid ${folder##*/} $index $gid $(cat "$port/gid_attrs/types/$index")"
    done
  done
done"""

# -M do: no fragments. If only the small packet is answered, a smaller MTU is on the way.
_PROBE = r"""
probe() {
  route=$(ip -4 route get "$2" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  if ping -q -n -c 2 -i 0.2 -w 3 -M do -s "$3" -I "$1" "$2" >&2; then full=yes small=yes
  else full=no; ping -q -n -c 1 -w 2 -I "$1" "$2" >&2 && small=yes || small=no; fi
  mac=$(ip -4 neigh show "$2" dev "$1" | sed -n 's/.*lladdr \([^ ]*\).*/\1/p')
  echo "$2 ${route:--} $full $small ${mac:--}"
}
command -v ping >/dev/null || { echo no ping; exit; }"""


def parse_fabric(output: Iterable[str]) -> FabricState:
    """Return the state that the script's output lines describe.

    Raises:
        ValueError, LookupError, TypeError: a section is missing or malformed.
    """
    found = sections(output)
    return FabricState(
        netdevs=dict(map(_netdev, found["netdevs"])),
        addresses=tuple(_addresses(found["addresses"])),
        routes=tuple(_routes(found["routes"])),
        netplan=tuple(map(_netplan, found["netplan"])),
        profiles=tuple(map(_profile, found["profiles"])),
        rdma=_rdma(found["rdma"]),
        tool=bool(found["tool"]),
        record="\n".join(found["record"]),
        guarded=bool(found["guard"]),
        reach=None if found["probes"] == ["no ping"] else dict(map(_reach, found["probes"])),
    )


def _netdev(line: str) -> tuple[str, Netdev]:
    name, flags, carrier, speed, mtu, mac = line.split()
    known = int(speed) if speed.isdecimal() and int(speed) > 0 else None
    return name, Netdev(bool(int(flags, 16) & 1), carrier == "1", known, int(mtu), mac)


def _addresses(lines: list[str]) -> Iterator[tuple[str, IPv4Interface]]:
    for interface in read_json(lines[0]):
        for found in interface.get("addr_info", ()):
            address = IPv4Interface(f"{found['local']}/{found['prefixlen']}")
            yield interface["ifname"], address


def _routes(lines: list[str]) -> Iterator[Route]:
    for route in (route for line in lines for route in read_json(line)):
        if "dev" in route:
            target = route["dst"]
            yield Route(route["dev"], None if target == "default" else IPv4Network(target))


def _netplan(line: str) -> NetplanFile:
    mode, text, path = line.split(" ", 2)
    return NetplanFile(path, mode, b64decode(text).decode(errors="replace") if text != "-" else "")


def _profile(line: str) -> Profile:
    netdev, mac, path = line.split("\t")
    return Profile(path, netdev, mac.lower())


def _rdma(lines: list[str]) -> dict[str, Rdma]:
    gids: dict[str, list[tuple[int, str, str]]] = {}
    found = {}
    for line in lines:
        if line.startswith("gid "):
            _, netdev, index, gid, kind = line.split(" ", 4)
            gids.setdefault(netdev, []).append((int(index), gid, kind))
    for line in lines:
        if line.startswith("port "):
            _, device, port, netdev, state, link_layer = line.split()
            found[netdev] = Rdma(device, port, state, link_layer, tuple(gids.get(netdev, ())))
    return found


def _reach(line: str) -> tuple[str, Reach]:
    address, route, full, small, mac = line.split()
    return address, Reach(route, full == "yes", small == "yes", mac)
