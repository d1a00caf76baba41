"""fetch-weights ROOT FOLDER: make ROOT/FOLDER what ROOT/manifests/FOLDER.json says.

Fetches only what is missing or wrong, each file at the pinned commit; resumes what was begun;
verifies everything by hash. The folder holds nothing else afterwards, but for names that start
with a dot: files of an older commit are removed, other people's are moved to
FOLDER/.sparkwright-set-aside.
Exit status: 0 the folder is right, 1 it is not; ROOT/jobs/weights@FOLDER.json says why.
"""

import hashlib
import json
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

from hub import Repository, say
from progress import Progress, Stop

# Files at a time: one connection to the hub seldom fills a line, and shards are few.
CONNECTIONS = 4
# A file that arrives damaged this often is damaged at its source, or this machine's memory is bad.
DAMAGES = 3

RECORD = ".sparkwright.json"
PARTIAL = ".sparkwright-partial"
SET_ASIDE = ".sparkwright-set-aside"


class Record:
    """Which files were found right, each with what tells that nobody has touched it since."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD
        self._lock = Lock()
        try:
            self._files: dict[str, dict[str, Any]] = json.loads(self._path.read_text())["files"]
        except (OSError, ValueError, KeyError):
            self._files = {}

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def holds(self, path: str, file: Path, digest: str) -> bool:
        """Whether this very file, as it is, was found to have this hash."""
        return self._files.get(path) == _entry(file, digest)

    def add(self, path: str, file: Path, digest: str) -> None:
        """Note a file whose hash was computed just now."""
        with self._lock:
            self._files[path] = _entry(file, digest)
            self._save()

    def forget(self, path: str) -> None:
        """Drop a file that is no longer there."""
        with self._lock:
            self._files.pop(path, None)
            self._save()

    def _save(self) -> None:
        new = self._path.with_name(f"{RECORD}.new")
        new.write_text(json.dumps({"files": self._files}, sort_keys=True) + "\n")
        new.replace(self._path)


def _entry(file: Path, digest: str) -> dict[str, Any]:
    stat = file.stat()
    return {
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "inode": stat.st_ino,
        "hash": digest,
    }


class Checkpoint:
    """One folder, what it must be, and how far it is."""

    def __init__(self, folder: Path, files: dict[str, dict[str, Any]]) -> None:
        self.folder = folder
        self.files = files
        self.record = Record(folder)
        self.right: set[str] = set()
        self._to_check = self._checked = 0
        self._verified = False

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total."""
        if not self._verified:
            return "verifying", self._checked, self._to_check
        total = sum(file["size"] for file in self.files.values())
        here = sum(
            file["size"] if path in self.right else self._fetched(path)
            for path, file in self.files.items()
        )
        return ("downloading" if here < total else "verifying"), here, total

    def verify(self) -> None:
        """Keep what is right; remove or set aside the rest."""
        for path in list(self._strangers()):
            self._clear_away(path)
        unsure = [path for path in self.files if self._is_unsure(path)]
        self._to_check = sum(self.files[path]["size"] for path in unsure)
        for path in unsure:
            self._keep(path, self.folder / path, self._count)
        self._verified = True

    def fetch(self, repository: Repository) -> None:
        """Fetch what is not right, several files at a time, the largest first."""
        missing = sorted(self.files.keys() - self.right, key=lambda path: -self.files[path]["size"])
        self._check_space(missing)
        pool = ThreadPoolExecutor(CONNECTIONS)
        jobs = [pool.submit(self._fetch_file, path, repository) for path in missing]
        done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
        # On a failure the others may be amid gigabytes: the process ends without them.
        pool.shutdown(wait=False, cancel_futures=True)
        for job in done:
            job.result()
        shutil.rmtree(self.folder / PARTIAL, ignore_errors=True)
        # What `hf download --local-dir` keeps; it may hold gigabytes of an interrupted one.
        shutil.rmtree(self.folder / ".cache" / "huggingface", ignore_errors=True)

    def _strangers(self) -> Iterator[str]:
        for file in self.folder.rglob("*"):
            path = file.relative_to(self.folder).as_posix()
            known = path in self.files or path.startswith(".")
            if not known and (file.is_symlink() or file.is_file()):
                yield path

    def _clear_away(self, path: str) -> None:
        if path in self.record:
            (self.folder / path).unlink()
            self.record.forget(path)
            say(f"{path} is no longer part of the checkpoint: removed")
        else:
            aside = self.folder / SET_ASIDE / path
            aside.parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).replace(aside)
            say(f"{path} is not part of the checkpoint: moved to {aside}")

    def _is_unsure(self, path: str) -> bool:
        """Whether only its hash can tell if a file is right; remove it where its size can."""
        file = self.folder / path
        if file.is_dir() and not file.is_symlink():
            raise Stop(f"{file} is a folder where the checkpoint has a file: move it away.")
        if file.is_symlink() or not file.exists():
            file.unlink(missing_ok=True)
        elif self.record.holds(path, file, self._digest(path)):
            self.right.add(path)
        elif file.stat().st_size == self.files[path]["size"]:
            return True
        else:
            file.unlink()
        return False

    def _check_space(self, missing: list[str]) -> None:
        need = sum(self.files[path]["size"] - self._fetched(path) for path in missing)
        free = shutil.disk_usage(self.folder).free
        if need > free:
            raise Stop(
                f"{need / 1e9:.2f} GB are still to be fetched, and {free / 1e9:.2f} GB are free "
                f"on the disk of {self.folder}: free some space, and run again."
            )

    def _fetch_file(self, path: str, repository: Repository) -> None:
        partial = self._partial(path)
        partial.parent.mkdir(exist_ok=True)
        for damages in range(1, DAMAGES + 1):
            repository.fetch(path, self.files[path]["size"], partial)
            if self._keep(path, partial):
                return
            say(f"{path} arrived damaged ({damages} of {DAMAGES} times)")
        raise Stop(
            f"{path} of {repository.name} arrived with a wrong hash {DAMAGES} times: the hub's "
            "copy differs from the lock, or this machine's memory or disk damages data."
        )

    def _keep(self, path: str, file: Path, seen: Callable[[int], None] = lambda _: None) -> bool:
        """Put a file in place if its hash is right, and note it; remove it otherwise."""
        if file_digest(file, sha256="sha256" in self.files[path], seen=seen) != self._digest(path):
            file.unlink()
            return False
        with file.open("rb") as content:
            os.fsync(content.fileno())
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
        self.record.add(path, place, self._digest(path))
        self.right.add(path)
        return True

    def _count(self, seen: int) -> None:
        self._checked += seen

    def _digest(self, path: str) -> str:
        file = self.files[path]
        return str(file.get("sha256") or file["git"])

    def _partial(self, path: str) -> Path:
        """Where a file grows: its name tells its content, so that another commit may go on."""
        return self.folder / PARTIAL / f"{self._digest(path)[:16]}-{path.replace('/', '%')}"

    def _fetched(self, path: str) -> int:
        """Bytes of a file that are on the disk, but not in place yet."""
        try:
            return min(self._partial(path).stat().st_size, int(self.files[path]["size"]))
        except FileNotFoundError:
            return 0


def file_digest(file: Path, *, sha256: bool, seen: Callable[[int], None]) -> str:
    """Return a file's sha256, or else the hash that git gives it; tell `seen` of bytes read."""
    digest = hashlib.sha256() if sha256 else hashlib.sha1(b"blob %d\0" % file.stat().st_size)
    with file.open("rb") as content:
        while chunk := content.read(1024 * 1024):
            digest.update(chunk)
            seen(len(chunk))
    return digest.hexdigest()


class Relay(logging.Handler):
    """Shows what the library waits for: it obeys Retry-After by itself, for minutes if need be."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Take the sentences without a URL."""
        if record.getMessage().startswith(("Rate limited", "Retrying in")):
            self._progress.message = record.getMessage()


def main(root: Path, name: str) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / "manifests" / f"{name}.json").read_text())
    (root / name).mkdir(exist_ok=True)
    checkpoint = Checkpoint(root / name, manifest["files"])
    with Progress(root / "jobs" / f"weights@{name}.json", checkpoint.measure) as progress:
        logging.getLogger("huggingface_hub").addHandler(Relay(progress))
        checkpoint.verify()
        checkpoint.fetch(
            Repository(manifest["endpoint"], manifest["repo"], manifest["commit"], progress)
        )


def run() -> NoReturn:
    """Run `main`, and end without waiting for downloads that a failure has left under way."""
    status = 1
    try:
        main(Path(sys.argv[1]), sys.argv[2])
        status = 0
    except Stop as stop:
        say(str(stop))
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()
