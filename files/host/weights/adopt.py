"""adopt-weights STEP ROOT FOLDER FINDINGS: begin ROOT/FOLDER with what other folders have of it.

Steps: `ready` mounts what it uses in place already; `find` hashes what may be of the checkpoint,
and only reads; `adopt` has the folder begin with what the file FINDINGS says was right.

ROOT/manifests/FOLDER.folders names the folders: caches of Hugging Face, or folders with
checkpoints in them. A file on the same disk is
linked and becomes root's, so that nobody can write into what was verified. One on another disk is
used where it is, if nobody but its owner can write it: host/weights/in_place.py. What is wrong, is
open for writing or has changed while it was hashed is left alone, named, and fetched.
"""

import errno
import fcntl
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log
from host.common.progress import JobError, Progress
from host.common.retry import run_job
from host.weights.checkpoint import LocalCheckpoint
from host.weights.hashing_file import BLOCK, File
from host.weights.in_place import AwayError, InPlace, Original, open_below, wait_for

# Seconds for which a run waits for a disk that is away: its owner is there, and can run it again.
PATIENCE = 10
# Files that are read at a time.
READERS = 4
# Names of files that a sentence lists.
_NAMED = 3


class Adoption:
    """One checkpoint, and where else it may be."""

    def __init__(self, root: Path, folder: str) -> None:
        orders = root / "manifests"
        files = json.loads((orders / f"{folder}.json").read_text("utf-8"))["files"]
        told = json.loads((orders / f"{folder}.folders").read_text("utf-8"))
        self.repo, self.commit = str(told["repo"]), str(told["commit"])
        self.bases = [str(base) for base in told["folders"]]
        self.name = folder.partition("@")[0]
        self.checkpoint = LocalCheckpoint(root / folder, files)
        self.in_place = InPlace(root, folder)
        self.report = root / "jobs" / f"adopt@{folder}.json"

    def missing(self) -> list[File]:
        """Return the files that the folder lacks, or that were not verified where they are used.

        An empty one is not looked for: its hash is that of every empty file.
        """
        files = self.checkpoint.files.items()
        return [file for path, file in files if file.size and not self._has(path, file)]

    def _has(self, path: str, file: File) -> bool:
        place = self.checkpoint.folder / path
        try:
            is_verified = self.checkpoint.record.digest(path, place) == file.digest
            # What fetching finds of the right size, it hashes.
            return is_verified or (
                path not in self.in_place.files and place.lstat().st_size == file.size
            )
        except OSError:
            return False

    def places(self, file: File) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield where a file may be: a folder of the group data, and the path below it."""
        owner, _, name = self.repo.partition("/")
        path = tuple(file.path.split("/"))
        cache = f"models--{owner}--{name}"
        for base in self.bases:
            for hub in ((), ("hub",)):
                # A blob's name is what the lock has: sha256, or git's hash of a small file.
                yield base, (*hub, cache, "blobs", file.digest)
                yield base, (*hub, cache, "snapshots", self.commit, *path)
            yield base, (owner, name, *path)
            for folder in dict.fromkeys((name, self.name)):
                yield base, (folder, *path)


class Search:
    """The files of a checkpoint that were found elsewhere.

    Attributes:
        right: by path, each file with its stamp when it was hashed.
        wrong: sentences about what was not right.
    """

    def __init__(self, adoption: Adoption, findings: Path) -> None:
        self._adoption = adoption
        self._findings = findings
        self._lock = Lock()
        self.right: dict[str, dict[str, Any]] = {}
        self.wrong: list[str] = []
        self._hashed: list[str] = []
        found = {file: list(self._places(file)) for file in adoption.missing()}
        self._found = {file: places for file, places in found.items() if places}
        self._total = sum(file.size for file in self._found)
        self._done = 0

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total."""
        return "verifying", min(self._done, self._total), self._total

    def hash(self) -> None:
        """Hash what may be right, several files at a time, and note what is."""
        self._save()
        with ThreadPoolExecutor(READERS) as pool:
            for job in [pool.submit(self._hash, *each) for each in self._found.items()]:
                job.result()

    def _hash(self, file: File, places: list[tuple[str, tuple[str, ...]]]) -> None:
        for base, parts in places:
            result = self._look(file, base, parts)
            with self._lock:
                if isinstance(result, str):
                    self.wrong.append(f"{'/'.join((base, *parts))} {result}")
                else:
                    self.right[file.path] = result
                self._hashed.append(file.path)
                self._save()
            if file.path in self.right:
                return

    def _save(self) -> None:
        told = {"right": self.right, "wrong": self.wrong, "hashed": self._hashed}
        replace(self._findings, json.dumps(told))

    def _look(self, file: File, base: str, parts: tuple[str, ...]) -> dict[str, Any] | str:
        """Return a file's stamp if its hash is right, or else what is wrong with it."""
        digest = file.hasher()
        try:
            number, _ = open_below(base, parts)
            with os.fdopen(number, "rb") as content:
                before = os.fstat(number)
                while chunk := content.read(BLOCK):
                    digest.update(chunk)
                    self._count(len(chunk))
                after = os.fstat(number)
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        if _stamp(before) != _stamp(after):
            return "changed while it was hashed"
        if digest.hexdigest() != file.digest:
            return "has another hash than the lock's"
        found = Original(base, parts, after.st_size, after.st_mtime_ns, after.st_ino)
        return {**asdict(found), "ctime_ns": after.st_ctime_ns}

    def _places(self, file: File) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield where there is a file of the right size."""
        for base, parts in self._adoption.places(file):
            with suppress(OSError):
                number, _ = open_below(base, parts)
                size = os.fstat(number).st_size
                os.close(number)
                if size == file.size:
                    yield base, parts

    def _count(self, seen: int) -> None:
        with self._lock:
            self._done += seen


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file: unlike the time of a change, ctime cannot be set back."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def find(root: Path, folder: str, findings: Path) -> None:
    """Hash what there is of a checkpoint elsewhere; every end but success is raised."""
    adoption = Adoption(root, folder)
    search = Search(adoption, findings)
    with Progress(adoption.report, search.measure):
        search.hash()


def ready(root: Path, folder: str) -> str:
    """Have what is used in place mounted, and forget it where the group data no longer names it.

    Returns:
        Nothing to say.

    Raises:
        JobError: it is away.
    """
    adoption = Adoption(root, folder)
    in_place = adoption.in_place
    in_place.drop([p for p, each in in_place.files.items() if each.base not in adoption.bases])
    # These are hashed anew, or fetched.
    in_place.drop(in_place.changed())
    if problem := wait_for([in_place], PATIENCE) if in_place.files else None:
        raise JobError(problem)
    return ""


def adopt(root: Path, folder: str, findings: Path) -> str:
    """Have a checkpoint's folder begin with what was found; return a sentence about it."""
    adoption = Adoption(root, folder)
    try:
        told = json.loads(findings.read_text("utf-8"))
    except FileNotFoundError:
        told = {"right": {}, "wrong": [], "hashed": []}
    adoption.in_place.drop({*told["hashed"]} & adoption.in_place.files.keys())
    linked, mounted, left = Counter[str](), Counter[str](), list(told["wrong"])
    for path, each in told["right"].items():
        ctime = each.pop("ctime_ns")
        original = Original(**{**each, "parts": tuple(each["parts"])})
        try:
            if _take(adoption, path, original, ctime):
                linked[original.base] += 1
            else:
                adoption.in_place.files[path] = original
                mounted[original.base] += 1
        except OSError as error:
            left.append(f"{original.path} {error.strerror}")
    adoption.in_place.save()
    try:
        adoption.in_place.mount()
    except AwayError as error:
        raise JobError(str(error)) from error
    for path in adoption.in_place.files:
        place = adoption.checkpoint.folder / path
        adoption.checkpoint.record.add(path, place, adoption.checkpoint.files[path].digest)
    return _sentence(linked, mounted, left)


def _take(adoption: Adoption, path: str, original: Original, ctime: int) -> bool:
    """Link a file into the folder and make it root's; False where it is to be used in place.

    Raises:
        OSError: neither; the words are the end of a sentence.
    """
    place = adoption.checkpoint.folder / path
    file, folders = open_below(original.base, original.parts)
    try:
        found = os.fstat(file)
        if not original.is_like(found) or found.st_ctime_ns != ctime:
            raise OSError(errno.EBUSY, "changed since it was hashed")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        try:
            _link(file, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _check_hands(found, folders)
            return False
        os.fchown(file, 0, 0)
        os.fchmod(file, 0o444)
        # From now on nobody but root can open it for writing. Whoever had done so before is found
        # by a lease, which the kernel gives only of a file that nobody can write.
        if _is_open_for_writing(file):
            place.unlink()
            os.fchown(file, found.st_uid, found.st_gid)
            os.fchmod(file, stat.S_IMODE(found.st_mode))
            raise OSError(errno.EBUSY, "is open for writing")
        adoption.checkpoint.record.add(path, place, adoption.checkpoint.files[path].digest)
        return True
    finally:
        os.close(file)


def _link(file: int, place: Path) -> None:
    """Link an open file: its name may be another's by now."""
    # Python follows the link in /proc only where it is told a folder.
    folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(file), place, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _check_hands(found: os.stat_result, folders: list[os.stat_result]) -> None:
    """Refuse a file of another disk that more than its owner can change, or that cannot be read."""
    if any(_is_others(each) for each in (found, *folders)):
        raise OSError(errno.EPERM, "can be written by others than its owner")
    if not found.st_mode & stat.S_IROTH:
        raise OSError(errno.EPERM, "cannot be read by all, as the engine has to")


def _is_others(found: os.stat_result) -> bool:
    """Tell whether a file or folder can be changed by more than its owner and the owner's group."""
    is_own_group = found.st_gid in (0, found.st_uid)
    mode = found.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return False
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not is_own_group))


def _is_open_for_writing(file: int) -> bool:
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # A file system without leases cannot tell.
        return error.errno in (errno.EAGAIN, errno.EACCES)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _sentence(linked: Counter[str], mounted: Counter[str], left: list[str]) -> str:
    parts = [f"{count} files linked from {base}, and root's now" for base, count in linked.items()]
    parts += [f"{count} used where they are, in {base}" for base, count in mounted.items()]
    if left:
        more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        parts.append(f"left alone: {'; '.join(left[:_NAMED])}{more}")
    return ". ".join(parts)


def _reported(root: Path, folder: str, work: Callable[[], str]) -> None:
    """Do something, and have the job's report say what came of it."""
    message, phase = "", "failed"
    try:
        message, phase = work(), "done"
    except JobError as error:
        message = str(error)
        raise
    finally:
        if message:
            log(message)
        told = {"phase": phase, "done": 0, "total": 0, "message": message}
        replace(root / "jobs" / f"adopt@{folder}.json", json.dumps(told) + "\n")


def command() -> None:
    """Does one step of the adoption of a checkpoint."""
    step, *rest = words(__doc__, "STEP", "ROOT", "FOLDER", "FINDINGS")
    root, folder, findings = Path(rest[0]), rest[1], Path(rest[2])
    steps: dict[str, Callable[[], None]] = {
        "ready": lambda: _reported(root, folder, lambda: ready(root, folder)),
        "find": lambda: find(root, folder, findings),
        "adopt": lambda: _reported(root, folder, lambda: adopt(root, folder, findings)),
    }
    run_job(steps[step])
