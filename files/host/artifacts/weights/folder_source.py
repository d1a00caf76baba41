"""Folders of this Spark as the source of files: a bundle's, and those that may have some."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from host.artifacts.weights.checkpoint import Source
from host.artifacts.weights.hashing_file import File, ResumableFile, unwritable
from host.artifacts.weights.link import opened
from host.common.log import log
from host.common.progress import JobError, Progress


def copied(folder: Path, file: File, partial: Path) -> str:
    """Copy a file of a folder; return the hash of what was written.

    Raises:
        OSError: There is no such file, or it is a link.
        EOFError: It cannot be read to its end.
        JobError: The disk does not take it.
    """
    with os.fdopen(opened(folder, file), "rb", buffering=0) as content:

        def read(part: memoryview) -> int:
            try:
                return content.readinto(part) or 0
            except OSError as error:
                raise EOFError(error.strerror) from error

        try:
            with ResumableFile(partial, file) as growing:
                # A damaged copy is of no use for another.
                growing.restart()
                growing.append(read)
                return growing.digest
        except OSError as error:
            raise unwritable(error, partial) from error


def _reason(error: OSError | EOFError) -> str:
    return str(getattr(error, "strerror", error) or "it became shorter")


class BundleSource:
    """A checkpoint's folder in a bundle that was sent here, or that an owner has brought.

    Args:
        folder: such as /opt/qwen36/bundle/weights/OWNER--NAME@COMMIT.
    """

    phase = "copying"
    # One disk.
    connections = 1

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def fetch(self, file: File, partial: Path) -> str:
        """Copy a file; return its hash.

        Raises:
            JobError: the folder does not have it.
        """
        try:
            return copied(self._folder, file, partial)
        except (OSError, EOFError) as error:
            raise JobError(
                f"{self._folder}/{file.path}: {_reason(error)}: the bundle is to bring it; run "
                "again, with the bundle in its place."
            ) from error


class FolderSource:
    """Folders that may have some files; what they lack, or have wrong, comes from another source.

    What is copied is hashed as it is written: whoever writes there meanwhile changes nothing.
    """

    def __init__(self, folders: Sequence[Path], rest: Source, progress: Progress) -> None:
        self.name, self.phase, self.connections = rest.name, rest.phase, rest.connections
        self._folders = folders
        self._rest = rest
        self._progress = progress
        self._asked: set[str] = set()
        self._copied = Counter[Path]()
        self._wrong: list[str] = []
        self._told = ""

    def fetch(self, file: File, partial: Path) -> str:
        """Copy a file, or fetch what a partial file lacks; return the hash of the whole.

        Raises:
            JobError: The other source does not give it either.
        """
        is_new = file.path not in self._asked
        self._asked.add(file.path)
        for folder in self._folders if is_new and file.size else ():
            if self._copy(folder, file, partial):
                return file.digest
        digest = self._rest.fetch(file, partial)
        self._tell()
        return digest

    def _copy(self, folder: Path, file: File, partial: Path) -> bool:
        why = "has another hash than the lock's"
        try:
            if copied(folder, file, partial) == file.digest:
                self._copied[folder] += 1
                self._tell()
                return True
        except FileNotFoundError:
            return False
        except (OSError, EOFError) as error:
            why = f"cannot be used ({_reason(error)})"
        partial.unlink(missing_ok=True)
        self._wrong.append(f"{file.path} of {folder} {why}")
        log(f"left alone: {self._wrong[-1]}")
        self._tell()
        return False

    def _tell(self) -> None:
        """Have the job's report say what came of it, where the other source says nothing."""
        told = [f"{count} files copied from {folder}" for folder, count in self._copied.items()]
        told += [f"left alone: {'; '.join(self._wrong[:3])}"] if self._wrong else []
        if self._progress.message in ("", self._told):
            self._told = self._progress.message = ". ".join(told)
