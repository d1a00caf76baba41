"""What other tools have set for the interfaces of the fabric."""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import yaml

from deploys.plan.fabric import NETPLAN
from deploys.plan.fabric_state import FabricState, NetplanFile
from deploys.plan.preflight import Finding

# Of two files with one name netplan reads the one in the first of these folders.
_FOLDERS = ("/run/netplan", "/etc/netplan", "/usr/lib/netplan")


def foreign_settings(state: FabricState, port: Iterable[str]) -> Iterator[Finding]:
    """Find what would be merged into, or fight with, our own settings of a port's twins.

    What names a twin is an error. A pattern that a twin happens to match is a warning: it is
    likely to be meant for the LAN, and where it does win the fabric does not come up.
    """
    macs = {netdev: state.netdevs[netdev].mac for netdev in port}
    for file in _effective(state.netplan):
        if file.path != NETPLAN:
            yield from _file_findings(file, macs)
    for profile in state.profiles:
        if profile.netdev in macs or profile.mac in macs.values():
            yield Finding(
                True,
                f"NetworkManager's profile {profile.path} sets {profile.netdev or profile.mac}, "
                "an interface of the fabric",
                f"Move it away (`sudo mv '{profile.path}' /root/ && "
                "sudo nmcli connection reload`) and run again",
            )


def our_netdevs(state: FabricState) -> set[str]:
    """Return the interfaces that our own file sets now."""
    return {
        name
        for file in state.netplan
        if file.path == NETPLAN
        for name in _definitions(file.text, "ethernets")
    }


def _effective(files: Iterable[NetplanFile]) -> list[NetplanFile]:
    by_folder = sorted(files, key=lambda file: _rank(file.path))
    first: dict[str, NetplanFile] = {}
    for file in by_folder:
        first.setdefault(PurePosixPath(file.path).name, file)
    return list(first.values())


def _rank(path: str) -> int:
    folder = str(PurePosixPath(path).parent)
    return _FOLDERS.index(folder) if folder in _FOLDERS else len(_FOLDERS)


def _file_findings(file: NetplanFile, macs: Mapping[str, str]) -> Iterator[Finding]:
    try:
        ethernets = _definitions(file.text, "ethernets")
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        yield Finding(True, f"{file.path} is not YAML ({reason})", "Correct it, or move it away")
        return
    how = {name: _match(name, value, macs) for name, value in ethernets.items()}
    named = [name for name, match in how.items() if match == "name"]
    named += [
        name
        for kind in ("bonds", "bridges")
        for name, value in _definitions(file.text, kind).items()
        if set(macs) & set(value.get("interfaces") or ())
    ]
    if named:
        remedy = f"Take {' and '.join(named)} out of it"
        if set(named) == set(ethernets):
            remedy = f"Move it away (`sudo mv {file.path} /root/`)"
        yield Finding(
            True,
            f"{file.path} sets {', '.join(named)}: netplan would merge that with the fabric's file",
            f"{remedy} and run again",
        )
    for name in (name for name, match in how.items() if match == "pattern"):
        yield Finding(
            False,
            f"the entry {name} of {file.path} matches interfaces of the fabric as well",
            "Should the fabric not come up, name the LAN's interface there",
        )


def _match(name: str, definition: Mapping[str, Any], macs: Mapping[str, str]) -> str | None:
    """Return whether an entry is for a twin by its "name", by a "pattern", or not (None)."""
    match = definition.get("match")
    if match is None:
        return "name" if name in macs else None
    pattern, mac = match.get("name"), match.get("macaddress")
    if mac is not None:
        return "name" if str(mac).lower() in macs.values() else None
    if pattern in macs:
        return "name"
    if pattern is None or any(fnmatchcase(netdev, str(pattern)) for netdev in macs):
        return "pattern"
    return None


def _definitions(text: str, kind: str) -> dict[str, dict[str, Any]]:
    """Return the entries of one kind; netplan itself judges what is malformed."""
    network = _mapping(_mapping(yaml.safe_load(text)).get("network"))
    return {str(name): _mapping(value) for name, value in _mapping(network.get(kind)).items()}


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
