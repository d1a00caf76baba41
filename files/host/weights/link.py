"""link-weights ROOT FOLDER: begin ROOT/FOLDER with what folders of other commits hold of it.

Commits of one checkpoint share most of their bytes. Each file that ROOT/manifests/FOLDER.json names
is linked from there where it may be the right one: fetch-weights hashes what nobody has hashed, and
replaces files, but never writes into one. FOLDER is NAME@COMMIT; a folder NAME is one that its
owner has filled. A bundle that the manifest names gives what it has, too.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from host.common.command_line import words
from host.common.log import log
from host.weights.checkpoint import LocalCheckpoint, Record


def others(root: Path, folder: str) -> Iterator[Path]:
    """Yield the folders of other commits, the newest first."""
    name = folder.partition("@")[0]
    found = [path for path in (root / name, *root.glob(f"{name}@*")) if path.is_dir()]
    newest_first = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    yield from (path for path in newest_first if path.name != folder)


def link(checkpoint: LocalCheckpoint, other: Path) -> int:
    """Link what another folder holds of a checkpoint; return how many files those are.

    What cannot be linked, such as a file on another disk, is left to be fetched.
    """
    record, linked = Record(other), 0
    for path, file in checkpoint.files.items():
        place, found = checkpoint.folder / path, other / path
        if place.exists() or found.is_symlink() or not found.is_file():
            continue
        digest = record.digest(path, found)
        if found.stat().st_size != file.size or digest not in (None, file.digest):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(found, place)
        except OSError:
            continue
        if digest:
            checkpoint.record.add(path, place, digest)
        linked += 1
    return linked


def main(root: Path, folder: str) -> None:
    """Link from each folder of another commit, and a bundle, what the ones before did not have."""
    manifest = json.loads((root / "manifests" / f"{folder}.json").read_text("utf-8"))
    files = manifest["files"]
    checkpoint = LocalCheckpoint(root / folder, files)
    bundled = [root / manifest["bundle"]] if "bundle" in manifest else []
    for other in (*others(root, folder), *bundled):
        if linked := link(checkpoint, other):
            log(f"{linked} of {len(files)} files are linked from {other}")


def command() -> None:
    """Links what other folders have of a checkpoint."""
    root, folder = words(__doc__, "ROOT", "FOLDER")
    main(Path(root), folder)
