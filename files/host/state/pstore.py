"""What a kernel said last: the firmware keeps it, and systemd-pstore brings it to the disk."""

import os
import re
from glob import iglob
from itertools import chain, islice
from typing import Any

_FOLDER = "/var/lib/systemd/pstore"
# Files that are looked at; records that are read, lines of each, and bytes of its file.
_LOOKED_AT, _RECORDS, _LINES, _BYTES = 500, 3, 40, 64 << 10
# The kernel's priority and time before a line, and its line before each part of a record.
_PREFIX = re.compile(r"^(<\d+>)?(\[ *\d+\.\d+\](\[ *\w+\])? ?)?")
_PART = re.compile(r"(Panic|Oops|Emergency|Shutdown|Unknown)#\d+ Part\d+")


def pstore(folder: str = _FOLDER) -> list[dict[str, Any]]:
    """Return the last lines of the newest records, and when each came to the disk: after a boot.

    systemd makes a dmesg.txt of a record's parts, in a folder within a folder (its pstore.c).
    """
    found = chain(*(iglob(f"{folder}/{below}dmesg*") for below in ("", "*/", "*/*/")))
    paths = [path for path in islice(found, _LOOKED_AT) if os.path.isfile(path)]
    whole = {os.path.dirname(path) for path in paths if path.endswith("/dmesg.txt")}
    kept = (p for p in paths if p.endswith("/dmesg.txt") or os.path.dirname(p) not in whole)
    newest = sorted(((os.path.getmtime(path), path) for path in kept), reverse=True)
    return [{"at": at, "lines": _last_lines(path)} for at, path in newest[:_RECORDS]]


def _last_lines(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES))
        rows = file.read(_BYTES).decode("utf-8", "replace").splitlines()
    said = (_PREFIX.sub("", row).strip() for row in rows)
    return [row for row in said if row and not _PART.fullmatch(row)][-_LINES:]
