"""fetch-weights ROOT FOLDER: make ROOT/FOLDER what ROOT/manifests/FOLDER.json says.

Fetches only what is missing or wrong: from other Sparks of a group, or from the hub at the pinned
commit or the bundle in its place; before that from other folders of this Spark, which that file
names. Resumes what was begun; verifies everything by hash. The folder holds nothing else
afterwards, but for names that start with a dot: other files are moved to
FOLDER/.sparkwright-set-aside.
Exit status: 0 the folder is right, 1 it is not; FOLDER/.sparkwright-progress.json says why.
"""

import http.client
import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from host.artifacts.weights.checkpoint import LocalCheckpoint, Source
from host.artifacts.weights.hashing_file import ResumableFile
from host.artifacts.weights.hub import Repository
from host.artifacts.weights.link import elsewhere, opened
from host.artifacts.weights.record import REPORT
from host.common.command_line import words
from host.common.log import log
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError, retry, run_job

# Seconds without a byte after which a connection to the other Spark counts as dead.
PATIENCE = 20
# Seconds before each further try of it: a Spark that lost its power is back in less than these.
DELAYS = (1, 2, *[5] * 35)
# Of one in whose place another lends: what it does not have yet it waits for, ten seconds a try.
BRIEF = (1,) * 6
REMEDY = (
    "look at fabric-share.socket on that Spark, and at the cable; then run again, "
    "which goes on where this ended"
)


class PeerSource:
    """A folder that other Sparks of a group lend over the fabric, by its URLs: the best first."""

    phase = "copying"
    # While one writes, others receive and hash: so the disk always has something to do.
    connections = 8

    def __init__(self, urls: Sequence[str], progress: Progress) -> None:
        self.name = urls[-1]
        self._urls = [*urls]
        self._progress = progress
        self._came: set[str] = set()

    def fetch(self, growing: ResumableFile) -> None:
        """Append what a file lacks, or raise a JobError; the last lends what came damaged."""
        path = growing.file.path
        while True:
            url, *others = self._urls[-1:] if path in self._came else self._urls
            attempt = partial(self._attempt, url, growing)
            delays = BRIEF if others else DELAYS
            try:
                retry(attempt, lambda: growing.position, self._progress, path, REMEDY, delays)
                self._came.add(path)
                return
            except JobError as error:
                if not others:
                    raise
                log(f"{path}: {error} From now on {others[0]} is asked.")
                if self._urls[0] == url:
                    self._urls = others

    def _attempt(self, url: str, growing: ResumableFile) -> None:
        netloc, prefix = urlsplit(url).netloc, urlsplit(url).path
        connection = http.client.HTTPConnection(netloc, timeout=PATIENCE)
        file, what = growing.file, "answer"
        try:
            address = f"{prefix}/{quote(file.path)}?hash={file.digest}&size={file.size}"
            connection.request("GET", address, headers={"Range": f"bytes={growing.position}-"})
            answer = connection.getresponse()
            if answer.status != http.client.PARTIAL_CONTENT:
                said = answer.read(1000).decode(errors="replace")
                if answer.status == http.client.FORBIDDEN:
                    raise JobError(f"{netloc} refuses this Spark: {said}.")
                raise RetryableError(f"{netloc} says: {said}")
            what = "whole answer"
            growing.append(answer.readinto)
        except (OSError, EOFError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it ended early"
            raise RetryableError(f"no {what} from {netloc} ({reason})") from error
        finally:
            connection.close()


class FolderSource:
    """Folders that may have some files; what they lack, or have wrong, comes from another source.

    What is copied is hashed as it is written: whoever writes there meanwhile changes nothing.
    Without another source, the folders must have all: the last of them is a bundle's.
    """

    def __init__(self, folders: Sequence[Path], rest: Source | None) -> None:
        self.name = rest.name if rest else str(folders[-1])
        self.phase = rest.phase if rest else "copying"
        # One disk.
        self.connections = rest.connections if rest else 1
        self._folders = folders
        self._rest = rest
        self._asked: set[str] = set()
        self._copied = Counter[Path]()
        self._wrong: list[str] = []

    @property
    def outcome(self) -> str:
        """The files that were copied from which folder, and what was left alone."""
        said = [f"{count} files copied from {folder}" for folder, count in self._copied.items()]
        said += [f"left alone: {'; '.join(self._wrong[:3])}"] if self._wrong else []
        return ". ".join(said)

    def fetch(self, growing: ResumableFile) -> None:
        """Copy a file, or append what it lacks, or raise a JobError."""
        is_new, fault = growing.file.path not in self._asked, ""
        self._asked.add(growing.file.path)
        for folder in self._folders if is_new else ():
            if not (fault := self._copy(folder, growing)):
                return
        if not self._rest:
            raise JobError(f"{fault}: the bundle is to bring it; run again, with the bundle there.")
        if not growing.complete:
            self._rest.fetch(growing)

    def _copy(self, folder: Path, growing: ResumableFile) -> str:
        """Copy a file of a folder; return why that did not work, "" if it did."""
        fault = f"{growing.file.path} of {folder} "
        try:
            with os.fdopen(opened(folder, growing.file), "rb", buffering=0) as content:
                # A damaged copy is of no use for another.
                growing.restart()
                growing.append(lambda part: content.readinto(part) or 0)
            if growing.digest == growing.file.digest:
                self._copied[folder] += 1
                return ""
            fault += "has another hash than the lock's"
        except FileNotFoundError as error:
            return f"{fault}cannot be used ({error.strerror})"
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", error) or "it became shorter"
            fault += f"cannot be used ({why})"
        growing.restart()
        self._wrong.append(fault)
        log(f"left alone: {fault}")
        return fault


def source(root: Path, name: str, manifest: dict[str, Any], progress: Progress) -> FolderSource:
    """Return what a manifest names: folders here, and the other Spark, a bundle, or the hub."""
    rest: Source | None = None
    if "sources" in manifest:
        rest = PeerSource(manifest["sources"], progress)
    elif "bundle" not in manifest:
        rest = Repository(manifest["endpoint"], manifest["repo"], manifest["commit"], progress)
    return FolderSource(elsewhere(root, name, manifest), rest)


def main(root: Path, name: str) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / f"manifests/{name}.json").read_text("utf-8"))
    checkpoint = LocalCheckpoint(root / name, manifest["files"])
    with Progress(root / name / REPORT, checkpoint.measure) as progress:
        checkpoint.verify()
        files = source(root, name, manifest, progress)
        checkpoint.fetch(files)
        progress.message = files.outcome


def command() -> None:
    """Fetches the checkpoint of a folder."""
    root, folder = words(__doc__, "ROOT", "FOLDER")
    run_job(lambda: main(Path(root), folder))
