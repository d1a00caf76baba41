"""The files of a bundle that are here, and the disk that they are on."""

import os
from collections.abc import Mapping
from hashlib import file_digest
from typing import Any

from host.state.readers import lines


def read(root: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return free bytes, dpkg's name of the architecture, and the hashes of files by path.

    One of another size than asked for is not hashed: its hash is "".
    """
    disk = root
    while not os.path.isdir(disk):
        disk = os.path.dirname(disk)
    found = os.statvfs(disk)
    return {
        "free": found.f_bavail * found.f_frsize,
        "architecture": next(iter(lines("dpkg", "--print-architecture")), "unknown"),
        "files": {
            path: _hash(f"{root}/bundle/{path}", size)
            for path, size in sizes.items()
            if os.path.isfile(f"{root}/bundle/{path}")
        },
    }


def _hash(path: str, size: int) -> str:
    with open(path, "rb") as file:
        is_whole = os.fstat(file.fileno()).st_size == size
        return file_digest(file, "sha256").hexdigest() if is_whole else ""
