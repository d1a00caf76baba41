"""Files that a run reads and writes on the machine that runs pyinfra."""

import errno
import os
import re
import tempfile
from pathlib import Path

from sparkwright.common.errors import PlanError

# What this process has written, in this order.
written: dict[Path, None] = {}


class UnmergedError(PlanError):
    """A file in which git has left the marks of a conflict."""


def content_of(path: Path, most: int | None = None) -> bytes:
    """Return what a regular file holds; of one that is larger than `most`, a byte more than that.

    What is none is an OSError: who reads a pipe may wait for ever.
    """
    if not (path.is_file() or path.is_dir()) and path.exists():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    with path.open("rb") as file:
        return file.read(-1 if most is None else most + 1)


def read_text(path: Path, expected: str, most: int) -> str | None:
    """Return the text of a file that an owner may have written; None where there is none.

    Args:
        expected: Follows "expected" in messages.
        most: Bytes that it may have.

    Raises:
        UnmergedError: It has conflict marks of git.
        PlanError: It cannot be read, is too large, or is no text.
    """
    try:
        content = content_of(path, most)
        if len(content) > most:
            raise PlanError(f"{path}: found more than {most:,} bytes; expected at most that")
        # Some editors begin a file with a byte order mark.
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except OSError as error:
        is_folder = isinstance(error, IsADirectoryError)
        what = "a folder" if is_folder else f"a file that cannot be read ({error.strerror})"
        raise PlanError(f"{path}: found {what}; expected {expected}") from None
    except ValueError as error:
        raise PlanError(
            f"{path}: cannot be read as UTF-8 text ({error}): save it with this encoding"
        ) from None
    if mark := re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE):
        line = text[: mark.start()].count("\n") + 1
        raise UnmergedError(
            f"{path}:{line}: found a conflict mark of git; expected one version: keep the lines "
            f"that count, and remove the marks; or take one side: git checkout --ours -- {path}, "
            "or --theirs"
        )
    return text


def write_file(path: Path, text: str, mode: int = 0o644, *, only_new: bool = False) -> bool:
    """Write a file in one step: readers, and an interrupted run, find the old or the new one.

    Its folder is made if it is missing. A link stays one, and a device or a pipe is written to.

    Args:
        mode: its permissions, which it has from the start.
        only_new: a file that is there stays, such as one that another run has just made.

    Returns:
        Whether it was written.

    Raises:
        PlanError: it cannot be written; the old file is unchanged.
    """
    if only_new and (path.is_symlink() or path.exists()):
        return False
    try:
        _write(path, text, mode, only_new)
    except OSError as error:
        if only_new and path.exists():
            return False
        raise unwritable(path, error) from None
    written[path.absolute()] = None
    return True


def _write(path: Path, text: str, mode: int, only_new: bool) -> None:
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp's files have mode 600.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    new = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            # A power cut after the rename would leave an empty file on some file systems.
            file.flush()
            os.fsync(file.fileno())
        new.chmod(mode)
        if only_new:
            path.hardlink_to(new)
        else:
            new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> PlanError:
    """Return the exception for a file or folder that an owner has to make writable."""
    no_folder = isinstance(error, FileExistsError | NotADirectoryError)
    reason = f"{path.parent} is no folder" if no_folder else error.strerror
    return PlanError(
        f"{path}: cannot be written ({reason}); expected a folder that this user can write "
        "to, and room on its disk"
    )


def why_unwritable(path: Path) -> str | None:
    """Return why `write_file` cannot write a file, as far as that shows before."""
    if path.is_dir():
        return f"{path} is a folder"
    above = path if path.exists() and not path.is_file() else path.absolute().parent
    while not above.exists():
        above = above.parent
    if above != path and not above.is_dir():
        return f"{above} is no folder"
    return None if os.access(above, os.W_OK) else f"no right to write to {above}"


def file_in(folder: Path, name: str) -> Path:
    """Return the path of a file directly in a folder; a name that leads elsewhere is a ValueError.

    Names are made of those of the inventory and of times, never of a host's output.
    """
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        raise ValueError(f"found {name!r}; expected the name of a file in {folder}")
    return folder / name
