"""How parts read a host: programs and sockets within bounds, small files, and what is read once."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
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


def run(*words: str, patience: float = 0) -> subprocess.CompletedProcess[str]:
    """Run a program and return how it ended; one that is absent ends with status 127."""
    try:
        return subprocess.run(
            words,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
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


def output(*words: str) -> str:
    """Return what a program prints; "" where it is absent or fails."""
    done = run(*words)
    return done.stdout if done.returncode == 0 else ""


def lines(*words: str) -> list[str]:
    """Return the lines that a program prints; none where it is absent or fails."""
    return output(*words).splitlines()


def exchange(address: str, request: str, patience: float, most: int) -> bytes:
    """Return what a socket answers to a request within some seconds, up to a number of bytes.

    The request is in HTTP 1.0, of which the answer ends with the connection, in one piece.
    """
    deadline = time.monotonic() + patience
    answer = bytearray()
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(patience)
        asked.connect(address)
        asked.sendall(request.encode())
        while len(answer) < most and (block := asked.recv(1 << 16)):
            answer += block
            asked.settimeout(max(0.001, deadline - time.monotonic()))
    return bytes(answer)


def is_there(program: str) -> bool:
    """Tell whether a program is on the search path."""
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in _PATH.split(":"))


def systemd(properties: Iterable[str], units: Iterable[str]) -> list[dict[str, str]]:
    """Return the properties of units, in systemd's order; nothing where there is no systemd."""
    asked = f"--property={','.join(properties)}"
    said = output("systemctl", "show", "--timestamp=unix", asked, "--", *units)
    blocks = (block.splitlines() for block in said.split("\n\n") if block)
    return [dict(row.split("=", 1) for row in rows if "=" in row) for rows in blocks]


@once
def manager() -> dict[str, str]:
    """Return the properties of systemd itself; nothing where there is none."""
    rows = lines("systemctl", "show", "--property=SystemState,RuntimeWatchdogUSec")
    return dict(row.split("=", 1) for row in rows if "=" in row)


def whole(digits: str) -> int:
    """Return a whole number, such as systemd's "@1795240000"; 0 for what is none."""
    digits = digits.removeprefix("@")
    return int(digits) if digits.isdecimal() else 0


def text(path: str, most: int = MOST) -> str | None:
    """Return the beginning of a small file; None where there is none."""
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


def existing(path: str) -> str:
    """Return a path, or its nearest parent that exists."""
    return path if os.path.exists(path) else existing(os.path.dirname(path))


def free_bytes(folder: str) -> int:
    """Return the bytes that are free where a folder is, or is to be."""
    found = os.statvfs(existing(folder))
    return found.f_bavail * found.f_frsize
