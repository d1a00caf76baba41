"""The size and hash of a file, and a file that grows on the disk while its hash is computed."""

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.common.progress import JobError

# Bytes that are read, hashed and written at once. Each write past the page cache is a trip to the
# disk: with 4 MiB the copy was a tenth slower, and more brings nothing.
BLOCK = 8 * 1024 * 1024
# What writes past the page cache must begin and end at.
ALIGNED = 4096
PARTIAL = ".sparkwright-partial"


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: `digest` is its sha256, or else the hash that git gives it."""

    path: str
    size: int
    digest: str

    @property
    def partial(self) -> str:
        """The path of what has come of it, with the hash of the whole in its name."""
        return f"{PARTIAL}/{self.digest[:16]}-{self.path.replace('/', '%')}"

    def hasher(self) -> Any:
        """Return what computes a hash of the kind of `digest`."""
        if len(self.digest) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size)

    def digest_of(self, file: Path, seen: Callable[[int], None]) -> str:
        """Return the hash of what is in a file; tell `seen` of bytes read."""
        digest = self.hasher()
        with file.open("rb") as content:
            while chunk := content.read(BLOCK):
                digest.update(chunk)
                seen(len(chunk))
        return str(digest.hexdigest())


class ResumableFile:
    """A partial file that goes on where it ends, hashed while it is written.

    It is written past the page cache, where the file system can: that takes a fraction of the time,
    and leaves the memory to others. What is there already is read once, for the hash. Where the
    disk takes no more, that is a JobError.
    """

    def __init__(self, partial: Path, file: File) -> None:
        self.file = file
        self._hasher = file.hasher()
        self._block = memoryview(mmap.mmap(-1, BLOCK))
        self._partial = partial
        with _writing(partial):
            self._file = os.open(partial, os.O_RDWR | os.O_CREAT, 0o644)
            found = os.fstat(self._file).st_size
            self.position = found if found == file.size else found // ALIGNED * ALIGNED
            if self.position > file.size:
                self.position = 0
            os.ftruncate(self._file, self.position)
        for start in range(0, self.position, BLOCK):
            count = os.preadv(self._file, [self._block], start)
            self._hasher.update(self._block[:count])
        self._set_direct(True)

    def __enter__(self) -> "ResumableFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def digest(self) -> str:
        """The hash of what has come so far."""
        return str(self._hasher.hexdigest())

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.position == self.file.size

    def restart(self) -> None:
        """Drop what is there."""
        os.ftruncate(self._file, 0)
        self.position = 0
        self._hasher = self.file.hasher()

    def append(self, read: Callable[[memoryview], int]) -> None:
        """Take in what is missing.

        Args:
            read: Fills a part of a buffer, and returns how many bytes it has put there.

        Raises:
            EOFError: There was less; what has come is kept, also if `read` raises an error.
        """
        while not self.complete:
            block = self._block[: min(BLOCK, self.file.size - self.position)]
            filled = 0
            try:
                while filled < len(block):
                    count = read(block[filled:])
                    if not count:
                        raise EOFError
                    filled += count
            except Exception:
                self._write(block[: filled // ALIGNED * ALIGNED])
                raise
            self._write(block)

    def _write(self, block: memoryview) -> None:
        """Put a block to the end of the file."""
        if len(block) % ALIGNED:
            self._set_direct(False)
        self._hasher.update(block)
        with _writing(self._partial):
            while block:
                written = os.pwrite(self._file, block, self.position)
                self.position += written
                block = block[written:]

    def _set_direct(self, direct: bool) -> None:
        # macOS has none, where a bundle may be filled.
        past_cache = getattr(os, "O_DIRECT", 0)
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL) & ~past_cache
        try:
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | (past_cache if direct else 0))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise


@contextmanager
def _writing(partial: Path) -> Iterator[None]:
    """Turn an error of the disk into one for people."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "mend that"
        raise JobError(f"{error.strerror} ({partial}): {remedy}, and run again.") from error
