"""Finds settings of other tools for the interfaces of the fabric."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.errors import Finding, PlanError, error, warning
from sparkwright.common.placed import NETPLAN
from sparkwright.network.fabric.state import FabricState, NetplanFile

# Of two files with one name netplan reads the one in the last of these folders.
_FOLDERS = ("/usr/lib/netplan", "/etc/netplan", "/run/netplan")
# Characters and opening brackets of a file that is read: one for ten interfaces has 3,000 and 50.
_MOST, _BRACKETS = 1 << 16, 300


def foreign_settings(state: FabricState, port: Iterable[str]) -> Iterator[Finding]:
    """Find settings that would be merged into, or conflict with, our own of a port's twins.

    An entry that names a twin is an error. A pattern that a twin happens to match is a warning: it
    is probably meant for the LAN. One command moves away all files that concern only twins.
    """
    macs = {netdev: state.netdevs[netdev].mac for netdev in port}
    away: dict[str, list[str]] = {}
    effective = {
        file.path.removeprefix(folder): file
        for folder in _FOLDERS
        for file in state.netplan
        if file.path.startswith(f"{folder}/")
    }
    for file in effective.values():
        if file.path != NETPLAN:
            yield from _file_findings(file, macs, away)
    for profile in state.profiles:
        if profile.netdev in macs or profile.mac in macs.values():
            away[profile.path] = [profile.netdev or profile.mac]
    if not away:
        return
    names = dict.fromkeys(name for named in away.values() for name in named)
    verb, them = ("sets", "it") if len(away) == 1 else ("set", "them")
    command = f"sudo mv {' '.join(map(shlex.quote, away))} /root/"
    # On Ubuntu NetworkManager keeps connections, and its changes to those of netplan, in
    # /etc/netplan/90-NM-UUID.yaml. Without this it keeps the settings that it has read.
    if any("/NetworkManager/" in path or "/90-NM-" in path for path in away):
        command += " && sudo netplan generate && sudo nmcli connection reload"
    yield error(
        f"{' and '.join(away)} {verb} {', '.join(names)}: that would be merged with the fabric's "
        "file, or fight with it",
        f"Move {them} away (`{command}`) and run again",
    )


def our_netdevs(state: FabricState) -> set[str]:
    """Return the interfaces that our own file sets now."""
    ours = next((file.text for file in state.netplan if file.path == NETPLAN), "")
    try:
        return set(_entries(_network(ours), "ethernets"))
    except PlanError:
        return set()


def _file_findings(
    file: NetplanFile, macs: Mapping[str, str], away: dict[str, list[str]]
) -> Iterator[Finding]:
    """Check one file; one that concerns only twins is added to `away`."""
    try:
        network = _network(file.text)
    except PlanError as problem:
        reason = " ".join(str(problem).split())
        yield error(f"{file.path} is not YAML ({reason})", "Correct it, or move it away")
        return
    ethernets = _entries(network, "ethernets").items()
    how = {name: _match(name, value, macs) for name, value in ethernets}
    named = [name for name, match in how.items() if match == "name"]
    named += [
        name
        for kind in ("bonds", "bridges")
        for name, value in _entries(network, kind).items()
        if isinstance(members := value.get("interfaces"), list)
        and macs.keys() & {*map(str, members)}
    ]
    if named and set(named) == {name for kind in network for name in _entries(network, kind)}:
        away[file.path] = named
    elif named:
        yield error(
            f"{file.path} sets {', '.join(named)}: netplan would merge that with the fabric's file",
            f"Take {' and '.join(named)} out of it and run again",
        )
    for name in (name for name, match in how.items() if match == "pattern"):
        yield warning(
            f"the entry {name} of {file.path} matches interfaces of the fabric as well",
            "Should the fabric not come up, name the LAN's interface there",
        )


def _match(name: str, definition: Mapping[str, Any], macs: Mapping[str, str]) -> str | None:
    """Return whether an entry matches a twin by its "name", by a "pattern", or not (None)."""
    by_name = "name" if name in macs else None
    match = definition.get("match")
    # NetworkManager makes one for each port without settings, DHCP with priority -999, and may keep
    # it. Any other connection of the interface is preferred to it.
    options = _mapping(_mapping(definition.get("networkmanager")).get("passthrough"))
    is_last = str(options.get("connection.autoconnect-priority", 0)).startswith("-")
    is_off = str(options.get("connection.autoconnect")).lower() == "false"
    if not by_name and (is_last or is_off):
        return None
    # An empty one is NetworkManager's, for its change to an entry of another file.
    if match is None or (match == {} and by_name):
        return by_name
    pattern, mac = _mapping(match).get("name"), _mapping(match).get("macaddress")
    if mac is not None:
        return "name" if str(mac).lower() in macs.values() else None
    if str(pattern) in macs:
        return "name"
    is_any = pattern is None or any(fnmatchcase(netdev, str(pattern)) for netdev in macs)
    return "pattern" if is_any else None


def _entries(network: Mapping[Any, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Return the entries of one kind; netplan itself reports malformed ones."""
    return {str(name): _mapping(value) for name, value in _mapping(network.get(kind)).items()}


def _network(text: str) -> dict[Any, Any]:
    """Return the `network` mapping of a file.

    Raises:
        PlanError: it is no YAML, or larger than a netplan file needs to be.
    """
    if len(text) > _MOST or sum(map(text.count, "[{")) > _BRACKETS:
        raise PlanError("it is too large")
    return _mapping(_mapping(yaml.parse(text, "line")).get("network"))


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
