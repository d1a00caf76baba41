"""The record of a checkpoint's folder: which of its files were verified, and how they were then.

Whoever fetches can have written anything into the folder.
"""

import errno
import json
import os
import stat
from typing import Any

RECORD = ".sparkwright.json"
# In the folder, as who fetches may write nowhere else.
REPORT = ".sparkwright-progress.json"
# Names a file that lay there with a wrong hash, and was fetched anew: a disk or memory is bad.
DAMAGED = ".sparkwright-damaged"
# Bytes of a record: that of 10,000 files has 2 MB.
LARGEST_RECORD = 4 * 1024 * 1024


def open_below(base: str | os.PathLike[str], path: str) -> int:
    """Open a file below a folder, along no link below it, or raise an OSError."""
    parts = path.split("/")
    if {"", ".", ".."} & {*parts}:
        raise OSError(errno.EINVAL, "no path below the folder")
    here = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, part in enumerate(parts, 1):
        kind = os.O_NONBLOCK if depth == len(parts) else os.O_DIRECTORY
        try:
            found = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind, dir_fd=here)
        finally:
            os.close(here)
        here = found
    if not stat.S_ISREG(os.fstat(here).st_mode):
        os.close(here)
        raise OSError(errno.EINVAL, "no file")
    return here


def read_json_below(base: str | os.PathLike[str], path: str, most: int) -> Any:
    """Return the value of a JSON file below a folder; of `most` bytes, or raise a ValueError."""
    with os.fdopen(open_below(base, path), "rb") as content:
        text = content.read(most + 1)
    if len(text) > most:
        raise ValueError(f"{path} has more than {most} bytes")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def read_record(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]] | None:
    """Return the entries of a folder's record by path; None if there is none."""
    try:
        files = read_json_below(folder, RECORD, LARGEST_RECORD)["files"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {path: entry for path, entry in files if _is_entry(entry)}


def entry_of(found: os.stat_result, digest: str) -> dict[str, Any]:
    """Return the entry of a file: its hash, and what shows that it has not changed since."""
    return {
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "inode": found.st_ino,
        "hash": digest,
    }


def _is_entry(entry: Any) -> bool:
    kinds = {"size": int, "mtime_ns": int, "inode": int, "hash": str}
    return isinstance(entry, dict) and {key: type(each) for key, each in entry.items()} == kinds
