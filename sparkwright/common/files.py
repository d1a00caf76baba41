"""Files, directories and links that a Spark must have, and what stands in their place."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from sparkwright.common.errors import Difference

Kind = Literal["absent", "unreadable", "file", "directory", "other"]


@dataclass(frozen=True)
class ManagedFile:
    """A small file. Not for secrets: `text` shows in --diff; see `secret_file`."""

    path: str
    text: str | bytes
    mode: str = "644"
    user: str = "root"
    group: str = "root"

    @property
    def content(self) -> bytes:
        """The file's bytes."""
        return self.text if isinstance(self.text, bytes) else self.text.encode()


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
        kind: of what it is, or what a link there leads to.
        mode: octal digits without a leading zero; "" when absent or unreadable.
        detail: sha256 of a file, reason of "unreadable".
        link: target of a link; None where it is none.
        changed: seconds since the epoch.
    """

    kind: Kind
    user: str = ""
    group: str = ""
    mode: str = ""
    detail: str = ""
    link: str | None = None
    changed: int = 0


ABSENT = FileState("absent")


def obstacle(entry: Entry, state: FileState) -> str | None:
    """Return why `entry` must not be put over what is there, as a sentence; None if nothing is."""
    wanted = {ManagedFile: "file", Directory: "directory", Symlink: "link"}[type(entry)]
    there = "link" if wanted == "link" and state.link is not None else state.kind
    if there in ("absent", wanted):
        return None
    if state.kind == "unreadable":
        return f"{entry.path} cannot be read: {state.detail}."
    return f"{entry.path} is no {wanted} ({state.kind}): move it away and run again."


def file_difference(entry: Entry, state: FileState) -> Difference | None:
    """Return how a path differs from what `entry` says, without its content; None if it is that."""
    if isinstance(entry, Symlink):
        if state.link == entry.target:
            return None
        there = _kind(state) if state.link is None else f"a link to {state.link}"
        return Difference(entry.path, f"a link to {entry.target}", there)
    wanted = "directory" if isinstance(entry, Directory) else "file"
    if state.kind != wanted:
        return Difference(entry.path, f"a {wanted}", _kind(state))
    expected, found = [], []
    if (state.user, state.group, state.mode) != (entry.user, entry.group, entry.mode):
        expected.append(f"{entry.user}:{entry.group} {entry.mode}")
        found.append(f"{state.user}:{state.group} {state.mode}")
    if isinstance(entry, ManagedFile):
        content = sha256(entry.content).hexdigest()
        if state.detail != content:
            expected.append(f"content sha256:{content[:12]}")
            found.append(f"sha256:{state.detail[:12]}")
    return Difference(entry.path, ", ".join(expected), ", ".join(found)) if found else None


def secret_difference(path: str, text: str | None, state: FileState) -> Difference | None:
    """Return how a secret's file differs from a text, or from none, without a hash of either."""
    if text is None:
        return None if state.kind == "absent" else Difference(path, "nothing", "something")
    if state.kind != "file":
        return Difference(path, "a file", _kind(state))
    found = f"{state.user}:{state.group} {state.mode}"
    if found != "root:root 600":
        return Difference(path, "root:root 600", found)
    is_same = state.detail == sha256(text.encode()).hexdigest()
    return None if is_same else Difference(path, "the present content", "another")


def _kind(state: FileState) -> str:
    return {
        "absent": "nothing",
        "unreadable": f"what cannot be read ({state.detail})",
        "other": "another kind of thing (other)",
    }.get(state.kind, f"a {state.kind}")
