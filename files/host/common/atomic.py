"""Files that change in one step, so that a reader, or a power cut, never meets half of one."""

import os
from pathlib import Path


def replace(path: Path, text: str, *, durable: bool = False) -> None:
    """Give a file this text.

    A full disk may still have room in the old file: it is then written in place. A durable text
    outlasts a loss of power, on return.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        _write(new, "w", text, durable)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        if not path.exists():
            raise
        _write(path, "r+", text, durable)
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were created, changed or removed in a folder outlast a loss of power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _write(path: Path, mode: str, text: str, durable: bool) -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.write(text)
        file.truncate()
        if durable:
            file.flush()
            os.fsync(file.fileno())
