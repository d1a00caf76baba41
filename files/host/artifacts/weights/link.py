"""link-weights ROOT FOLDER: begin ROOT/FOLDER with what this disk has of it already.

Commits of one checkpoint share most of their bytes; a bundle, and the folders that the setting
`model_folders` names, may have others. A file is linked only where it is root's alone: a hash says
what a file was, and a link shares it with whoever can still write it. fetch-weights copies the
rest, and hashes everything.
"""

import errno
import fcntl
import json
import os
import signal
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from host.artifacts.weights.checkpoint import LocalCheckpoint, Record
from host.artifacts.weights.hand_over import hand_over
from host.artifacts.weights.hashing_file import File
from host.artifacts.weights.record import open_below
from host.common.command_line import words
from host.common.log import log


def elsewhere(root: Path, folder: str, manifest: Mapping[str, Any]) -> list[Path]:
    """Return the folders that may have files of a checkpoint, a bundle's last.

    FOLDER is NAME@COMMIT: those of other commits, the newest first; a folder NAME is one that its
    owner has filled.
    """
    name = folder.partition("@")[0]
    found = [path for path in (root / name, *root.glob(f"{name}@*")) if path.is_dir()]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    named = [*map(Path, manifest.get("folders", ()))]
    bundled = [root / manifest["bundle"]] if "bundle" in manifest else []
    return [*(path for path in found if path.name != folder), *named, *bundled]


def opened(folder: Path, file: File) -> int:
    """Open what may be a file of a checkpoint in a folder, along no link, or raise an OSError.

    In a cache of Hugging Face, its name is its hash.
    """
    path = file.digest if folder.name == "blobs" else file.path
    descriptor = open_below(folder, path)
    # Of another commit's folder. That a file is right, a record cannot say: it is hashed.
    is_other = _record(folder).digest(path, folder / path) not in (None, file.digest)
    if is_other or os.fstat(descriptor).st_size != file.size:
        os.close(descriptor)
        raise OSError(errno.ENOENT, "it is of another commit")
    return descriptor


@cache
def _record(folder: Path) -> Record:
    return Record(folder)


def is_roots_alone(file: int) -> bool:
    """Tell whether nobody but root can write an open file, now or later.

    No other user can open it for writing, by mode and access list (the mode's group bits are the
    list's mask). Whoever could before, and still has it open or mapped, is found by a lease, which
    the kernel then refuses.
    """
    found = os.fstat(file)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not found.st_mode & 0o004:
        return False
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


def link(place: Path, folder: Path, file: File) -> bool:
    """Link a file of another folder, if it may be the right one; return whether that was done."""
    try:
        with os.fdopen(opened(folder, file), "rb") as content:
            if not is_roots_alone(content.fileno()):
                return False
            place.parent.mkdir(parents=True, exist_ok=True)
            # By its descriptor: its name may be another's by now. Python follows the link in /proc
            # only with a folder given.
            own = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.link(str(content.fileno()), place, src_dir_fd=own, follow_symlinks=True)
            finally:
                os.close(own)
    except OSError:
        # There is none, it is on another disk, or it cannot be linked: it is copied.
        return False
    return True


def main(root: Path, folder: str) -> None:
    """Link from each folder what the ones before did not have."""
    manifest = json.loads((root / "manifests" / f"{folder}.json").read_text("utf-8"))
    checkpoint = LocalCheckpoint(root / folder, manifest["files"])
    for other in elsewhere(root, folder, manifest):
        linked = 0
        for path, file in checkpoint.files.items():
            place = checkpoint.folder / path
            linked += not os.path.lexists(place) and link(place, other, file)
        if linked:
            log(f"{linked} of {len(checkpoint.files)} files are linked from {other}")


def command() -> None:
    """Links what other folders have of a checkpoint."""
    root, folder = words(__doc__, "ROOT", "FOLDER")
    # What an earlier job was cut off in is its user's still, whose links root must not follow.
    hand_over(Path(root, folder), Path("/"))
    # Of a lease, should root itself open the file for writing meanwhile.
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    main(Path(root), folder)
