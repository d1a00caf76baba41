"""Folders of this Spark as the source of files: those that may have some, and a bundle's."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from host.artifacts.weights.checkpoint import Source
from host.artifacts.weights.hashing_file import File, ResumableFile
from host.artifacts.weights.link import opened
from host.common.log import log
from host.common.progress import JobError, Progress


def copied(folder: Path, file: File, partial: Path) -> str:
    """Copy a file of a folder; return the hash of what was written.

    Raises:
        OSError: There is no such file, it is a link, or it cannot be read.
        EOFError: It became shorter.
        JobError: The disk does not take it.
    """
    with (
        os.fdopen(opened(folder, file), "rb", buffering=0) as content,
        ResumableFile(partial, file) as growing,
    ):
        # A damaged copy is of no use for another.
        growing.restart()
        growing.append(lambda part: content.readinto(part) or 0)
        return growing.digest


class FolderSource:
    """Folders that may have some files; what they lack, or have wrong, comes from another source.

    What is copied is hashed as it is written: whoever writes there meanwhile changes nothing.
    Without another source, the folders must have all: the last of them is a bundle's.
    """

    def __init__(self, folders: Sequence[Path], rest: Source | None, progress: Progress) -> None:
        self.name = rest.name if rest else str(folders[-1])
        self.phase = rest.phase if rest else "copying"
        # One disk.
        self.connections = rest.connections if rest else 1
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
            JobError: No source gives it.
        """
        is_new, fault = file.path not in self._asked, ""
        self._asked.add(file.path)
        for folder in self._folders if is_new else ():
            if not (fault := self._copy(folder, file, partial)):
                return file.digest
        if not self._rest:
            raise JobError(f"{fault}: the bundle is to bring it; run again, with the bundle there.")
        digest = self._rest.fetch(file, partial)
        self._tell()
        return digest

    def _copy(self, folder: Path, file: File, partial: Path) -> str:
        """Copy a file of a folder; return why that did not work, "" if it did."""
        fault = f"{file.path} of {folder} "
        try:
            if copied(folder, file, partial) == file.digest:
                self._copied[folder] += 1
                self._tell()
                return ""
            fault += "has another hash than the lock's"
        except FileNotFoundError as error:
            return f"{fault}cannot be used ({error.strerror})"
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", error) or "it became shorter"
            fault += f"cannot be used ({why})"
        partial.unlink(missing_ok=True)
        self._wrong.append(fault)
        log(f"left alone: {fault}")
        self._tell()
        return fault

    def _tell(self) -> None:
        """Have the job's report say what came of it, where the other source says nothing."""
        told = [f"{count} files copied from {folder}" for folder, count in self._copied.items()]
        told += [f"left alone: {'; '.join(self._wrong[:3])}"] if self._wrong else []
        if self._progress.message in ("", self._told):
            self._told = self._progress.message = ". ".join(told)
