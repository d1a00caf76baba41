"""How parts read a host: programs with a bound, small files, and what several parts need once."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeVar

T = TypeVar("T")

# Seconds for a program, and bytes of a small file.
PATIENCE = 20.0
MOST = 1 << 20
# Some hosts have the system's programs on the search path of root's own sessions alone.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PATH": _PATH}


class UnknownError(Exception):
    """A part cannot be read, for this reason."""


def run(
    *words: str, patience: float = 0, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return how it ended; one that is absent ends with status 127.

    Raises:
        UnknownError: It did not end in time.
    """
    try:
        return subprocess.run(
            words,
            env=_ENVIRONMENT,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience or PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", "")
    except subprocess.TimeoutExpired:
        raise UnknownError(f"{words[0]} did not end within {patience or PATIENCE:g} s") from None


def lines(*words: str, patience: float = 0) -> list[str]:
    """Return the lines that a program prints; none where it is absent or fails."""
    done = run(*words, patience=patience)
    return done.stdout.splitlines() if done.returncode == 0 else []


def text(path: str, most: int = MOST) -> str | None:
    """Return the beginning of a small file; None where there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def word(path: str) -> str:
    """Return the content of a file of one line, as those of sysfs; "" where it cannot be read."""
    try:
        return (text(path, 4096) or "").strip()
    except OSError:
        return ""


def meminfo() -> Mapping[str, int]:
    """Return /proc/meminfo in bytes."""
    pairs = (line.split(":") for line in (text("/proc/meminfo") or "").splitlines())
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}


def names(folder: str) -> list[str]:
    """Return the names in a folder in order; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def free_bytes(folder: str) -> int:
    """Return the bytes that are free where a folder is, or is to be."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def once(function: Callable[..., T]) -> Callable[..., T]:
    """Have several parts, each in a thread of its own, share what a function returns or raises."""
    known: dict[object, T | Exception] = {}
    turn = threading.Lock()

    @wraps(function)
    def shared(*arguments: object, **named: object) -> T:
        key = arguments, tuple(named.items())
        with turn:
            if key not in known:
                try:
                    known[key] = function(*arguments, **named)
                except Exception as error:
                    known[key] = error
            found = known[key]
        if isinstance(found, Exception):
            raise found
        return found

    return shared
