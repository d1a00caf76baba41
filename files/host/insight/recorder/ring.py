"""The ring: the last hours of a life of a Spark, a line a second, in a file of fixed size.

A block is the lines between two writes; whatever a loss of power leaves of it, the rest is read.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from host.state.readers import text as content

BLOCK, SIZE = 4096, 2 << 20
# Seconds since the epoch, and since the boot; the GPU's W, °C and MHz; MiB of memory available; per
# cent of ten seconds in which something waited for memory, disk, processor (PSI); MiB of swap in
# use, and free on the disk; the engines' steps. Or the first two, "!" and a message of the kernel.
HEAD = "time up watts celsius megahertz available memory io cpu swap disk steps"
_NAMES = HEAD.split()
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,3})?", re.ASCII)
_FIELDS = rf"( (-|{_NUMBER.pattern})){{10}}| ! [ -~]{{1,160}}"
_LINE = re.compile(rf"\d{{1,12}} \d{{1,12}}({_FIELDS})", re.ASCII)


class Line(NamedTuple):
    """A line: the readings of its second that there are, by name, or a message of the kernel."""

    text: str
    now: dict[str, float]
    word: str


def line(values: Iterable[object], word: str = "") -> str:
    """Return a line of values in the order of HEAD, or of the first two, and a message."""
    texts = (str(each).strip() for each in values)
    readings = " ".join(each if _NUMBER.fullmatch(each) else "-" for each in texts)
    said = "".join(each if " " <= each <= "~" else "?" for each in word[:160])
    return f"{readings} ! {said}" if said else readings


def parse(texts: Iterable[str]) -> list[Line]:
    """Return what lines say, without those that are damaged."""
    found = []
    for text in filter(_LINE.fullmatch, texts):
        readings, _, word = text.partition(" ! ")
        pairs = zip(_NAMES, readings.split(" "), strict=False)
        found.append(Line(text, {name: float(each) for name, each in pairs if each != "-"}, word))
    return found


def lines(path: Path) -> list[Line]:
    """Return the lines of a ring that can be read, from the oldest."""
    return sorted(parse((content(str(path), SIZE) or "").split("\n")), key=lambda e: e.now["up"])


class Ring:
    """The file of a ring, empty at first; raises OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        # Written, not only reserved: a write into it then changes no map of the file.
        self._place = os.pwrite(self._file, b"\n" * SIZE, 0) % SIZE

    def write(self, texts: Iterable[str]) -> None:
        """Have one more block on the disk; lines that it has no room for are lost."""
        block = "\n".join(texts)[: BLOCK - 1].ljust(BLOCK, "\n").encode("ascii", "replace")
        os.pwrite(self._file, block, self._place)
        os.fdatasync(self._file)
        self._place = (self._place + BLOCK) % SIZE
