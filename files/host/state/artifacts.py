"""Jobs that fetch and build on a Spark, their Python environment, a bundle's files, weights."""

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import file_digest, sha256
from typing import Any

from host.artifacts.weights.record import REPORT, entry_of, read_json_below, read_record
from host.state.placed import unit_states
from host.state.readers import free_bytes, lines, text

# Bytes of a job's report.
_REPORT = 64 * 1024


def jobs(root: str, jobs: Sequence[str]) -> dict[str, Any]:
    """Return the jobs by the names of their units, such as "weights@qwen36-nvfp4"."""
    units = unit_states([f"{job}.service" for job in jobs])
    return {
        "jobs": {
            job: {
                "active": units.get(f"{job}.service", {}).get("active", ""),
                "progress": _progress(root, job),
            }
            for job in jobs
        }
    }


def _progress(root: str, job: str) -> Any:
    kind, _, name = job.partition("@")
    report = f"{name}/{REPORT}" if kind == "weights" else f"jobs/{job}.json"
    try:
        # The user who fetches weights can lay links in their folder.
        return read_json_below(root, report, _REPORT)
    except OSError:
        return None


def environment(path: str) -> dict[str, Any]:
    """Return the hash of an environment's requirements; None if it does not work.

    After an upgrade of the system's Python, its packages are in the folder of another version.
    """
    python = f"{path}/bin/python"
    packages = f"{path}/lib/{os.path.basename(os.path.realpath(python))}/site-packages"
    works = os.access(python, os.X_OK) and os.path.exists(f"{packages}/pip/__init__.py")
    stamp = text(f"{path}/.requirements") if works else None
    return {"requirements": None if stamp is None else sha256(stamp.encode()).hexdigest()}


def bundle(root: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return free bytes, dpkg's architecture, and hashes of files; "" for one of another size."""
    return {
        "free": free_bytes(root),
        "architecture": next(iter(lines("dpkg", "--print-architecture")), "unknown"),
        "files": {
            path: _hash(f"{root}/bundle/{path}", size)
            for path, size in sizes.items()
            if os.path.isfile(f"{root}/bundle/{path}")
        },
    }


def compiled(path: str, link: str) -> dict[str, Any]:
    """Return the bytes of an archive of compiled code, None without one; and where a link leads."""
    size = os.stat(path).st_size if os.path.isfile(path) else None
    return {"size": size, "current": os.path.basename(os.path.realpath(link))}


def _hash(path: str, size: int) -> str:
    with open(path, "rb") as file:
        is_whole = os.fstat(file.fileno()).st_size == size
        return file_digest(file, "sha256").hexdigest() if is_whole else ""


def weights(root: str, folders: Sequence[str]) -> dict[str, Any]:
    """Return the manifest's hash and the files of each folder below the root.

    Hashes are by the record of whoever fetched them, who can lay links, too: none is followed.
    """
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
