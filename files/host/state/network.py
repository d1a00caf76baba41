"""The network between the Sparks of a group: interfaces, settings, RDMA devices, identity."""

import json
import os
import re
import select
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from host.state.placed import path_state
from host.state.readers import UnknownError, names, output, run, text, word

_SYS = "/sys/class"
# ARP: its type of frame; frame type, kinds and lengths of its addresses, Ethernet's and IPv4's.
_ARP, _FRAME = 0x0806, 128
_ARP_HEAD = b"\x08\x06\x00\x01\x08\x00\x06\x04"
# Seconds for the answers to each question, of which the first may be lost, as a port has just found
# its link; and the most answers that are kept of an interface.
_ANSWERS, _TIMES, _MOST = 0.5, 4, 64
# By its socket, an interface and what is asked there.
_Asked = dict[socket.socket, tuple[str, list[bytes]]]
_NETPLAN = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan")
_PROFILES = "/etc/NetworkManager/system-connections"
# A secret ends with its line, or with its entry in braces.
_KEY = "(?:password|psk|secret|private|shared|key)"
_LINE = re.compile(rf"^([^\S\n]*[^:{{\s]*{_KEY}[^:\n]*:)[^\S\n]+\S.*", re.MULTILINE)
_QUOTED = "\"[^\"\\n]*\"|'[^'\\n]*'|[^},\\s]"
_ENTRY = re.compile(rf"({_KEY}[^:\n]*:[^\S\n]*)(?:{_QUOTED})[^}},\n]*")


def fabric(
    root: str, netdevs: Sequence[str] = (), probes: Sequence[tuple[str, str, int]] = ()
) -> dict[str, Any]:
    """Return the state of the fabric. Secrets in a netplan file (Wi-Fi) stay on the Spark.

    Args:
        netdevs: The interfaces that may be the fabric's.
        probes: Packets to send, each an interface, an address and an MTU; one takes a quarter of a
            second if all is well, five at most.
    """
    can_probe = not probes or shutil.which("ping") is not None
    return {
        "netdevs": {name: _netdev(name) for name in netdevs if os.path.exists(_net(name))},
        "addresses": [
            (each["ifname"], f"{found['local']}/{found['prefixlen']}")
            for each in _ip("-4", "address")
            for found in each.get("addr_info", ())
        ],
        "routes": [
            {"netdev": each["dev"], "network": None if each["dst"] == "default" else each["dst"]}
            for each in (*_ip("-4", "route"), *_ip("-6", "route", "show", "default"))
            if "dev" in each
        ],
        "netplan": [_netplan(path) for folder in _NETPLAN for path in _files(folder, ".yaml")],
        "profiles": [_profile(path) for path in _files(_PROFILES)],
        "rdma": dict(_rdma()),
        "tool": shutil.which("ib_write_bw") is not None,
        "record": text(f"{root}/state/fabric.json") or "",
        "guarded": _is_guarded(),
        "reach": {each[1]: _reach(*each) for each in probes} if can_probe else None,
    }


def _net(name: str) -> str:
    return f"{_SYS}/net/{name}"


def _netdev(name: str) -> dict[str, Any]:
    # A carrier cannot be read while the interface is switched off.
    flags, carrier, speed, mtu, mac = (
        word(f"{_net(name)}/{key}") for key in ("flags", "carrier", "speed", "mtu", "address")
    )
    return {
        "up": bool(int(flags, 16) & 1),
        "carrier": carrier == "1",
        "speed": int(speed) if speed.isdecimal() and int(speed) > 0 else None,
        "mtu": int(mtu),
        "mac": mac,
    }


def _ip(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("ip", "-j", *words).stdout or "[]")
    return found


def _files(folder: str, end: str = "") -> list[str]:
    paths = [f"{folder}/{name}" for name in names(folder) if name.endswith(end)]
    return [path for path in paths if os.path.isfile(path)]


def _netplan(path: str) -> dict[str, str]:
    state = path_state(path) or {}
    shown = _ENTRY.sub(r"\1hidden", _LINE.sub(r"\1 hidden", text(path) or ""))
    return {"path": path, "mode": f"{state.get('user')}:{state.get('mode')}", "text": shown}


def _profile(path: str) -> dict[str, str]:
    rows = reversed((text(path) or "").splitlines())
    known = dict(row.split("=", 1) for row in rows if "=" in row)
    mac = known.get("mac-address", "").lower()
    return {"path": path, "netdev": known.get("interface-name", ""), "mac": mac}


def _rdma() -> Iterator[tuple[str, dict[str, Any]]]:
    devices = f"{_SYS}/infiniband"
    for device in names(devices):
        for port in names(f"{devices}/{device}/ports"):
            folder = f"{devices}/{device}/ports/{port}"
            found = {
                "device": device,
                "port": port,
                "state": word(f"{folder}/state").rpartition(": ")[2],
                "link_layer": word(f"{folder}/link_layer") or "-",
                "gids": list(_gids(folder)),
            }
            yield from ((netdev, found) for netdev in names(f"{devices}/{device}/device/net"))


def _gids(folder: str) -> Iterator[tuple[int, str, str]]:
    """Yield the filled entries of a port's GID table."""
    for index in sorted(map(int, names(f"{folder}/gids"))):
        gid = word(f"{folder}/gids/{index}")
        if gid.strip("0:"):
            yield index, gid, word(f"{folder}/gid_attrs/types/{index}")


def _is_guarded() -> bool:
    tables = ["iptables", *(["ip6tables"] if os.path.exists("/proc/net/if_inet6") else [])]
    rule = ("-w", "-C", "INPUT", "-j", "SPARKWRIGHT")
    return all(run(table, *rule).returncode == 0 for table in tables)


def _reach(netdev: str, address: str, mtu: int) -> dict[str, Any]:
    ping = ("ping", "-q", "-n", "-I", netdev)
    route = _ip("-4", "route", "get", address)
    # -M do: no fragments. If only the small packet is answered, a smaller MTU is on the way.
    whole = ("-c", "2", "-i", "0.2", "-w", "3", "-M", "do", "-s", f"{mtu - 28}")
    full = run(*ping, *whole, address).returncode == 0
    small = full or run(*ping, "-c", "1", "-w", "2", address).returncode == 0
    known = _ip("-4", "neigh", "show", address, "dev", netdev)
    return {
        "route": route[0].get("dev", "-") if route else "-",
        "full": full,
        "small": small,
        "mac": next((each["lladdr"] for each in known if "lladdr" in each), "-"),
    }


def neighbors(netdevs: Sequence[str], addresses: Sequence[str]) -> dict[str, Any]:
    """Return the MAC addresses that answer at each interface which is asked for some addresses.

    By ARP, which needs no address of one's own. A machine that comes from the factory answers for
    all of its addresses by any interface, one whose twins are kept apart by that which has it.
    """
    heard: dict[str, set[str]] = {}
    with ExitStack() as stack:
        asked: _Asked = {}
        for netdev in netdevs:
            with suppress(OSError):  # It is missing, or off.
                line = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                line.bind((netdev, _ARP))
                own = bytes.fromhex(word(f"{_net(netdev)}/address").replace(":", ""))
                head = b"\xff" * 6 + own + _ARP_HEAD + b"\x00\x01" + own + bytes(4) + bytes(6)
                asked[line] = netdev, [head + socket.inet_aton(each) for each in addresses]
                heard[netdev] = set()
        for _ in range(_TIMES if asked else 0):
            for line, (_, questions) in asked.items():
                for question in questions:
                    with suppress(OSError):  # It has gone away.
                        line.send(question)
            _answers(asked, heard)
    return {"heard": {netdev: sorted(found) for netdev, found in heard.items()}}


def _answers(asked: _Asked, heard: dict[str, set[str]]) -> None:
    """Take what comes in a while, of replies who has sent them."""
    end = time.monotonic() + _ANSWERS
    while (left := end - time.monotonic()) > 0:
        for line in select.select([*asked], [], [], left)[0]:
            answer, found = line.recv(_FRAME), heard[asked[line][0]]
            if answer[14:22] == _ARP_HEAD[2:] + b"\x00\x02" and len(found) < _MOST:
                found.add(answer[22:28].hex(":"))


def write_bandwidth(
    device: str, gid: int, port: int, address: str, patience: float = 60
) -> dict[str, Any]:
    """Return the Gb/s of RDMA writes by one twin to the peer; None without a result.

    For half of the patience, the peer is waited for at its address.
    """
    words = ("ib_write_bw", "-d", device, "-i", "1", "-x", f"{gid}", "-p", f"{port}", "-F")
    end = time.monotonic() + patience / 2
    while True:
        try:
            done = run(*words, "--report_gbits", address, patience=patience)
        except UnknownError:
            return {"gbits": None}
        if done.returncode == 0 or time.monotonic() > end:
            return {"gbits": _gbits(done.stdout)}
        time.sleep(1)


def _gbits(said: str) -> float | None:
    """Return the column `BW average[Gb/sec]` of the output's last row; None without a row."""
    rows = map(str.split, said.splitlines())
    values = [float(row[3]) for row in rows if len(row) in (4, 5) and row[0].isdecimal()]
    return values[-1] if values else None


def link(root: str) -> dict[str, Any]:
    """Return the state of the key and certificate by which the peer authenticates this Spark."""
    key, certificate = f"{root}/secrets/link.key", f"{root}/link/own.crt"
    for path in (key, certificate):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except FileNotFoundError:
            return {"state": "absent"}
        except OSError as error:
            return {"state": "unreadable", "detail": f"{path}: {error.strerror}"}
    x509 = ("openssl", "x509", "-in", certificate)
    public = output("openssl", "pkey", "-in", key, "-passin", "pass:", "-pubout")
    found = os.stat(key)
    is_safe = found.st_uid == os.geteuid() and found.st_mode & 0o7777 == 0o600
    if is_safe and public and public == output(*x509, "-noout", "-pubkey"):
        return {"state": "fit", "certificate": output(*x509)}
    return {"state": "unfit"}
