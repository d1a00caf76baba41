"""A folder that holds exactly the files that it should, each with the right hash."""

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from host.artifacts.weights.hashing_file import PARTIAL, File, ResumableFile
from host.artifacts.weights.record import DAMAGED, RECORD, entry_of, read_record
from host.common.atomic import replace
from host.common.log import log
from host.common.progress import JobError

# A file that arrives damaged this often is damaged at its source, or this machine's memory is bad.
DAMAGES = 3

SET_ASIDE = ".sparkwright-set-aside"


class Source(Protocol):
    """Where files come from: its name for people, the phase of a job, and files at a time."""

    name: str
    phase: str
    connections: int

    def fetch(self, growing: ResumableFile) -> None:
        """Append what a file lacks, or raise a JobError."""


class Record:
    """The files that were verified, each with what shows that it has not changed since."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD
        self._lock = Lock()
        self._files = read_record(folder) or {}

    def digest(self, path: str, file: Path) -> str | None:
        """Return the hash that was computed of a file; None if it has changed since, or is new."""
        entry = self._files.get(path, {})
        return entry["hash"] if entry == entry_of(file.stat(), entry.get("hash", "")) else None

    def add(self, path: str, file: Path, digest: str) -> None:
        """Note a file whose hash was computed just now."""
        with self._lock:
            self._files[path] = entry_of(file.stat(), digest)
            replace(self._path, json.dumps({"files": self._files}, sort_keys=True) + "\n")


class LocalCheckpoint:
    """A checkpoint in its folder: the files that it must have, and those that it has."""

    def __init__(self, folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self.files = {
            path: File(path, file["size"], file.get("sha256") or file["git"])
            for path, file in files.items()
        }
        self.record = Record(folder)
        self.verified: set[str] = set()
        self._to_check = self._checked = 0
        self._is_verified = False
        self._moving = "downloading"

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total."""
        if not self._is_verified:
            return "verifying", self._checked, self._to_check
        total = sum(file.size for file in self.files.values())
        here = sum(
            file.size if path in self.verified else self._fetched(file)
            for path, file in self.files.items()
        )
        return (self._moving if here < total else "verifying"), here, total

    def verify(self) -> None:
        """Keep verified files, remove wrong ones, and set aside those that are none of its own."""
        self._set_aside()
        unverified = [file for file in self.files.values() if self._needs_hash(file)]
        self._to_check = sum(file.size for file in unverified)

        def count(seen: int) -> None:
            self._checked += seen

        for file in unverified:
            place = self.folder / file.path
            if not self._keep(file, place, file.digest_of(place, count)):
                replace(self.folder / DAMAGED, f"{file.path}\n")
        self._is_verified = True

    def fetch(self, source: Source) -> None:
        """Fetch the missing files, several at a time, the largest first."""
        self._moving = source.phase
        missing = [file for path, file in self.files.items() if path not in self.verified]
        missing.sort(key=lambda file: -file.size)
        self._check_space(missing)
        pool = ThreadPoolExecutor(source.connections)
        jobs = [pool.submit(self._fetch_file, file, source) for file in missing]
        done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
        # After a failure others may still have gigabytes to go: the process ends without them.
        pool.shutdown(wait=False, cancel_futures=True)
        for job in done:
            job.result()
        shutil.rmtree(self.folder / PARTIAL, ignore_errors=True)

    def _set_aside(self) -> None:
        """Move away what is none of its files, but for names that start with a dot."""
        for found in [*self.folder.rglob("*")]:
            path = found.relative_to(self.folder).as_posix()
            is_known = path in self.files or path.startswith(".")
            if not is_known and (found.is_symlink() or found.is_file()):
                aside = self.folder / SET_ASIDE / path
                aside.parent.mkdir(parents=True, exist_ok=True)
                found.replace(aside)
                log(f"{path} is not part of the checkpoint: moved to {aside}")

    def _needs_hash(self, file: File) -> bool:
        """Tell whether a file must be hashed; remove it where its size is wrong."""
        place = self.folder / file.path
        if place.is_dir() and not place.is_symlink():
            raise JobError(f"{place} is a folder where the checkpoint has a file: move it away.")
        if place.is_symlink() or not place.exists():
            place.unlink(missing_ok=True)
        elif self.record.digest(file.path, place) == file.digest:
            if (size := place.stat().st_size) != file.size:
                raise JobError(
                    f"{file.path} has {size} bytes and the hash of the lock, which says {file.size}"
                    " bytes: get the lock back (git checkout), and run again."
                )
            self.verified.add(file.path)
        elif place.stat().st_size == file.size:
            return True
        else:
            place.unlink()
        return False

    def _check_space(self, missing: list[File]) -> None:
        need = sum(file.size - self._fetched(file) for file in missing)
        free = shutil.disk_usage(self.folder).free
        if need > free:
            raise JobError(
                f"{need / 1e9:.2f} GB are still to be fetched, and {free / 1e9:.2f} GB are free "
                f"on the disk of {self.folder}: free some space, and run again."
            )

    def _fetch_file(self, file: File, source: Source) -> None:
        partial = self.folder / file.partial
        partial.parent.mkdir(exist_ok=True)
        for damages in range(1, DAMAGES + 1):
            with ResumableFile(partial, file) as growing:
                source.fetch(growing)
            if self._keep(file, partial, growing.digest):
                return
            log(f"{file.path} arrived damaged ({damages} of {DAMAGES} times)")
        raise JobError(
            f"{file.path} of {source.name} arrived with a wrong hash {DAMAGES} times: the copy "
            "there differs from the lock, or this machine's memory or disk damages data."
        )

    def _keep(self, file: File, found: Path, digest: str) -> bool:
        """Put a file in place if its hash is right, and note it; remove it otherwise."""
        if digest != file.digest:
            found.unlink()
            return False
        with found.open("rb") as content:
            os.fsync(content.fileno())
        place = self.folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        found.replace(place)
        self.record.add(file.path, place, digest)
        self.verified.add(file.path)
        return True

    def _fetched(self, file: File) -> int:
        """Return the bytes of a partial file."""
        try:
            return min((self.folder / file.partial).stat().st_size, file.size)
        except FileNotFoundError:
            return 0
