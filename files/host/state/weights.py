"""Checkpoints: what is in their folders, by the record of whoever fetched it; no weights are read.

Links are not followed, as whoever fetches can lay them.
"""

import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from host.artifacts.weights.record import entry_of, read_record
from host.state.readers import text


def read(root: str, folders: Sequence[str]) -> dict[str, Any]:
    """Return the manifest's hash and the files of each folder below the root."""
    return {"folders": {name: _folder(root, name) for name in folders}}


def _folder(root: str, name: str) -> dict[str, Any]:
    manifest = text(f"{root}/manifests/{name}.json", 16 << 20)
    folder = f"{root}/{name}"
    record = read_record(folder) or {}
    return {
        "manifest": None if manifest is None else sha256(manifest.encode()).hexdigest(),
        "files": {path: _file(found, record.get(path)) for path, found in _files(folder, "")},
    }


def _file(found: os.stat_result, entry: dict[str, Any] | None) -> dict[str, Any]:
    """Return a file's size, and its hash where it was verified and has not changed since."""
    digest = entry["hash"] if entry else None
    is_same = digest is None or entry_of(found, digest) == entry
    return {"size": found.st_size, "hash": digest, "changed": not is_same}


def _files(folder: str, before: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a folder, but Sparkwright's own and those of a Hub's cache."""
    if not before and not os.path.isdir(folder):
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            path = before + entry.name
            if path == ".cache" or path.startswith(".sparkwright"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)
