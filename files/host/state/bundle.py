"""The files of a bundle that are here, and the disk that they are on."""

import os
from collections.abc import Sequence
from hashlib import file_digest
from typing import Any

from host.state.readers import lines


def read(root: str, paths: Sequence[str], hashed: bool) -> dict[str, Any]:
    """Return free bytes, dpkg's name of the architecture, and size and hash of files by path."""
    disk = root
    while not os.path.isdir(disk):
        disk = os.path.dirname(disk)
    found = os.statvfs(disk)
    return {
        "free": found.f_bavail * found.f_frsize,
        "architecture": next(iter(lines("dpkg", "--print-architecture")), "unknown"),
        "files": {
            path: _file(f"{root}/bundle/{path}", hashed)
            for path in paths
            if os.path.isfile(f"{root}/bundle/{path}")
        },
    }


def _file(path: str, hashed: bool) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest() if hashed else ""
        return {"size": os.fstat(file.fileno()).st_size, "hash": digest}
