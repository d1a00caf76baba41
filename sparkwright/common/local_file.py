"""Files that a run leaves on the machine from which it runs."""

import os
import tempfile
from pathlib import Path


def write_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file in one step: who reads it, or ends this run, finds the former or the new one.

    Args:
        path: the file; its folder is made if need be. A link stays one, and a device or a pipe is
            written to.
        text: its new content.
        mode: its permissions; no one else can read it before it has them.

    Raises:
        OSError: it cannot be written; the former file is as it was.
    """
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
        new.chmod(mode)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def file_in(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, and nowhere else.

    Args:
        folder: where a run leaves its files.
        name: made of what the inventory says and of times, never of what a host says.

    Raises:
        ValueError: the name would lead elsewhere.
    """
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        raise ValueError(f"found {name!r}; expected the name of a file in {folder}")
    return folder / name
