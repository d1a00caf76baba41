"""Files, units, kernel parameters and users of a host, as Sparkwright places them."""

import grp
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from host.state.readers import UnknownError, names, once, systemd, whole, word

# Files that are looked at, and bytes of one that is hashed: the largest of ours has 1 MB.
_MOST_FILES, _MOST_BYTES = 5000, 256 << 20
# Folders in a folder of ours that are entered: releases/ID/bin has two.
_DEPTH = 3
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
_PROPERTIES = {
    "LoadState": "load",
    "ActiveState": "active",
    "UnitFileState": "file",
    "FragmentPath": "path",
    "NeedDaemonReload": "outdated",
    "StatusText": "status",
}
_WANTS = "/etc/systemd/system"


def read(
    folders: Sequence[str] = (),
    paths: Sequence[str] = (),
    units: Sequence[str] = (),
    parameters: Sequence[str] = (),
    users: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the states of paths and of all in some folders, of units, parameters and users.

    Parameters are patterns, as in "net.ipv4.conf.*.arp_ignore"; of users, those that exist return.
    """
    found = {path: state for path in _all(folders, paths) if (state := path_state(path))}
    return {
        "files": found,
        "units": unit_states(units),
        "parameters": dict(_parameters(parameters)),
        "users": [name for name in users if _is_user(name)],
    }


def _all(folders: Sequence[str], paths: Sequence[str]) -> list[str]:
    found = list(dict.fromkeys([*paths, *(each for folder in folders for each in _inside(folder))]))
    if len(found) > _MOST_FILES:
        raise UnknownError(f"found {len(found)} files; expected at most {_MOST_FILES}")
    return found


def _inside(folder: str, depth: int = _DEPTH) -> Iterator[str]:
    yield folder
    if depth < 0 or os.path.islink(folder) or not os.path.isdir(folder):
        return
    if os.path.exists(f"{folder}/pyvenv.cfg"):
        return
    for name in names(folder):
        yield from _inside(f"{folder}/{name}", depth - 1)


def path_state(path: str) -> dict[str, Any] | None:
    """Return the state of a path, whose links are followed; None where there is nothing."""
    try:
        link = os.readlink(path) if os.path.islink(path) else None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None if link is None else {"kind": "absent", "link": link}
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
        state = {
            "kind": kind,
            "user": _name(pwd.getpwuid, found.st_uid),
            "group": _name(grp.getgrgid, found.st_gid),
            "mode": f"{stat.S_IMODE(found.st_mode):o}",
            "changed": int(found.st_mtime),
            "link": link,
        }
        return state | {"detail": _hash(path, found.st_size)} if kind == "file" else state
    except OSError as error:
        return {"kind": "unreadable", "detail": os.strerror(error.errno or 0)}


def _hash(path: str, size: int) -> str:
    if size > _MOST_BYTES:
        return f"{size} bytes"
    digest = hashlib.sha256()
    # A pipe in its place must not hold the reading up.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@once
def _name(of: Any, number: int) -> str:
    try:
        return str(of(number)[0])
    except KeyError:
        # As `stat` prints an owner without a name.
        return "UNKNOWN"


def unit_states(units: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what systemd says of units, by their names; nothing where there is no systemd."""
    shown = systemd((*_PROPERTIES, "ActiveEnterTimestamp"), units) if units else []
    states = {}
    for unit, values in zip(units, shown, strict=False):
        state: dict[str, Any] = {key: values.get(name, "") for name, key in _PROPERTIES.items()}
        states[unit] = state | {
            "outdated": state["outdated"] == "yes",
            "started": whole(values.get("ActiveEnterTimestamp", "")),
            "wanted": unit in _wanted(),
        }
    return states


@once
def _wanted() -> set[str]:
    """Return the units that links have start with others: systemd remembers what may be older."""
    folders = [name for name in names(_WANTS) if name.endswith((".wants", ".requires"))]
    return {unit for folder in folders for unit in names(f"{_WANTS}/{folder}")}


def _parameters(patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        before, star, after = pattern.replace(".", "/").partition("*")
        middle = names(f"/proc/sys/{before}") if star else [""]
        for each in middle:
            path = f"/proc/sys/{before}{each}{after}"
            if os.path.exists(path):
                yield pattern.replace("*", each), " ".join(word(path).split())


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
