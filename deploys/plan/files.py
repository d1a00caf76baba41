"""Files, directories and links that a Spark must have, and what stands in their place."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Kind = Literal["absent", "unreadable", "file", "directory", "link", "other"]


@dataclass(frozen=True)
class ManagedFile:
    """A small text file. Not for secrets: `text` shows in --diff; see `operations/secrets.py`.

    Attributes:
        mode: octal digits, as in "644".
    """

    path: str
    text: str
    mode: str = "644"
    user: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class Directory:
    """A directory, or a link to one: an owner may keep it on another disk."""

    path: str
    mode: str = "755"
    user: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class Symlink:
    """A symbolic link; `target` may be relative and need not exist."""

    path: str
    target: str


Entry = ManagedFile | Directory | Symlink


@dataclass(frozen=True)
class FileState:
    """The state of a path.

    Attributes:
        mode: octal digits without a leading zero; "" when absent or unreadable.
        detail: sha256 of a file, target of a link, reason of "unreadable".
    """

    kind: Kind
    user: str = ""
    group: str = ""
    mode: str = ""
    detail: str = ""


def is_current(entry: Entry, state: FileState) -> bool:
    """Tell whether the path already is what `entry` says."""
    if isinstance(entry, Symlink):
        return (state.kind, state.detail) == ("link", entry.target)
    if (state.user, state.group, state.mode) != (entry.user, entry.group, entry.mode):
        return False
    if isinstance(entry, Directory):
        return state.kind == "directory"
    return (state.kind, state.detail) == ("file", sha256(entry.text.encode()).hexdigest())


def obstacle(entry: Entry, state: FileState) -> str | None:
    """Return why `entry` must not be put over what is there, as a sentence; None if nothing is."""
    wanted = {ManagedFile: "file", Directory: "directory", Symlink: "link"}[type(entry)]
    if state.kind in ("absent", wanted):
        return None
    if state.kind == "unreadable":
        return f"{entry.path} cannot be read: {state.detail}."
    return f"{entry.path} is no {wanted} ({state.kind}): move it away and run again."
