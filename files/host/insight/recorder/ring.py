"""The ring: the last hours of a Spark, a line a second, in a file of fixed size.

It is text, in blocks of 4 KiB: the lines between two writes to the disk. Each block stands for
itself, so whatever half of one a loss of power leaves, the others can be read.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

BLOCK, BLOCKS = 4096, 512
# Characters of a block beside its first line.
ROOM = BLOCK - 80
# Of a line: seconds since the epoch, and since the boot, which never jumps; then the GPU's W, °C
# and MHz; MiB of memory that can be had; per cent of ten seconds in which something waited for
# memory, disk, processor (PSI, some); MiB of swap in use, and free on the disk; the engine's steps.
FIELDS = (
    *("time", "up", "watts", "celsius", "megahertz", "available", "memory", "io", "cpu", "swap"),
    *("disk", "steps"),
)
_HEAD = re.compile(r"flight (\d{1,15}) ([0-9a-f-]{1,36}) (on|end)", re.ASCII)
_NUMBER = r"\d{1,12}(\.\d{1,3})?"
_LINE = re.compile(rf"\d{{1,12}} \d{{1,12}}(( (-|{_NUMBER})){{10}}| ! [ -~]{{1,160}})", re.ASCII)


class Line(NamedTuple):
    """The readings of a second, by FIELDS, but for those that there are not; or a kernel's word."""

    now: dict[str, float]
    word: str = ""

    @property
    def up(self) -> float:
        """Seconds since the boot."""
        return self.now["up"]


class Block(NamedTuple):
    """What was written at once: its number, its boot, whether that ended in order, its lines."""

    number: int
    boot: str
    ended: bool
    lines: list[str]


def line(values: Iterable[float | None], word: str = "") -> str:
    """Return a line of values in the order of FIELDS, or of time and uptime, and a word."""
    said = "".join(each if " " <= each <= "~" else "?" for each in word[:160])
    readings = " ".join("-" if each is None else f"{each:.12g}" for each in values)
    return f"{readings} ! {said}" if said else readings


def parse(lines: Iterable[str]) -> list[Line]:
    """Return what lines say, without those that are damaged."""
    found = []
    for text in filter(_LINE.fullmatch, lines):
        values, _, word = text.partition(" ! ")
        pairs = zip(FIELDS, values.split(" "), strict=False)
        found.append(Line({name: float(value) for name, value in pairs if value != "-"}, word))
    return found


class Ring:
    """The file of a ring; raises OSError where it cannot be opened, read or written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        missing = BLOCK * BLOCKS - os.fstat(self._file).st_size
        if missing > 0:
            # Written, not only reserved: a write into it then changes no map of the file.
            os.pwrite(self._file, b"\n" * missing, BLOCK * BLOCKS - missing)
            os.fsync(self._file)
        self._next = 1 + max((each.number for each in self.blocks()), default=-1)
        # A large page of it that is in memory would count as written, whole, with each block.
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def blocks(self) -> list[Block]:
        """Return the blocks that can be read, from the oldest."""
        found = []
        for place in range(BLOCKS):
            text = os.pread(self._file, BLOCK, place * BLOCK).decode("ascii", "replace")
            first, *lines = text.split("\n")
            if (head := _HEAD.fullmatch(first)) and int(head[1]) % BLOCKS == place:
                found.append(Block(int(head[1]), head[2], head[3] == "end", lines))
        return sorted(found)

    def write(self, boot: str, lines: Iterable[str], *, ended: bool = False) -> None:
        """Have one more block on the disk; lines that it has no room for are lost."""
        text = "\n".join([f"flight {self._next} {boot} {'end' if ended else 'on'}", *lines])
        block = text[: BLOCK - 1].ljust(BLOCK, "\n").encode("ascii", "replace")
        os.pwrite(self._file, block, self._next % BLOCKS * BLOCK)
        os.fdatasync(self._file)
        self._next += 1
