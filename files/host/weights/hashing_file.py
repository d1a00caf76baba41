"""The size and hash of a file, and a file that grows on the disk while its hash is computed."""

import errno
import fcntl
import hashlib
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Bytes that are read, hashed and written at once. Each write past the page cache is a trip to the
# disk: with 4 MiB the copy was a tenth slower, and more brings nothing.
BLOCK = 8 * 1024 * 1024
# What writes past the page cache must begin and end at.
ALIGNED = 4096


@dataclass(frozen=True)
class File:
    """A file of a checkpoint or an image.

    Attributes:
        path: below its folder.
        size: bytes.
        digest: its sha256, or else the hash that git gives it.
    """

    path: str
    size: int
    digest: str

    def hasher(self) -> Any:
        """Return what computes a hash of the kind of `digest`."""
        if len(self.digest) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size)

    def digest_of(self, file: Path, seen: Callable[[int], None] = lambda _: None) -> str:
        """Return the hash of what is in a file; tell `seen` of bytes read."""
        digest = self.hasher()
        with file.open("rb") as content:
            while chunk := content.read(BLOCK):
                digest.update(chunk)
                seen(len(chunk))
        return str(digest.hexdigest())


class ResumableFile:
    """A partial file that goes on where it ends, hashed while it is written.

    Past the page cache, where the file system can: that takes a fraction of the time, and leaves
    the memory to others. What is there already is read once, for the hash.
    """

    def __init__(self, partial: Path, file: File) -> None:
        self._size = file.size
        self._hasher = file.hasher()
        self._block = memoryview(mmap.mmap(-1, BLOCK))
        self._file = os.open(partial, os.O_RDWR | os.O_CREAT, 0o644)
        found = os.fstat(self._file).st_size
        self.position = found if found == file.size else found // ALIGNED * ALIGNED
        if self.position > file.size:
            self.position = 0
        os.ftruncate(self._file, self.position)
        self._hash_again()
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
        """Tell whether nothing is missing."""
        return self.position == self._size

    def append(self, read: Callable[[memoryview], int]) -> None:
        """Take in what is missing.

        Args:
            read: fills a part of a buffer, and returns how many bytes it has put there.

        Raises:
            EOFError: there was less; what has come is kept.
            OSError: what `read` raises, or the disk; what has come is kept.
        """
        while not self.complete:
            wanted, filled = min(BLOCK, self._size - self.position), 0
            try:
                while filled < wanted:
                    count = read(self._block[filled:wanted])
                    if not count:
                        raise EOFError
                    filled += count
            finally:
                self._write(filled if filled == wanted else filled // ALIGNED * ALIGNED)

    def _write(self, count: int) -> None:
        """Put the first bytes of the block to the end of the file."""
        if count % ALIGNED:
            self._set_direct(False)
        view = self._block[:count]
        self._hasher.update(view)
        while view:
            written = os.pwrite(self._file, view, self.position)
            self.position += written
            view = view[written:]

    def _hash_again(self) -> None:
        for start in range(0, self.position, BLOCK):
            count = os.preadv(self._file, [self._block], start)
            self._hasher.update(self._block[:count])

    def _set_direct(self, direct: bool) -> None:
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL) & ~os.O_DIRECT
        try:
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | (os.O_DIRECT if direct else 0))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
