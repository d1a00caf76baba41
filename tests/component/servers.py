"""Helpers of tests that start servers."""

import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer

import pytest

from tests.clock import patience


def free_port() -> int:
    """A TCP port that nothing uses, and that a door may have.

    It is below those that the kernel gives to clients, one of which might take it before the server
    that it is for listens on it.
    """
    while True:
        port = random.SystemRandom().randrange(19_000, 29_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server takes connections there."""
    try:
        socket.create_connection((host, port), timeout=patience()).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds; fail when it does not for as long as `patience` says."""
    deadline = time.monotonic() + patience(seconds)
    while not condition():
        assert time.monotonic() < deadline, f"nothing within {patience(seconds):g} s"
        time.sleep(0.02)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Have a disk of 512 KiB in a folder; skip the test where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "sparkwright-test", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount a small disk: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> None:
    """Leave no room on the disk of a folder."""
    handle = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(handle, bytes(4096)):
            pass
    except OSError:
        assert os.statvfs(folder).f_bavail == 0
    finally:
        os.close(handle)


class QuietHandler(BaseHTTPRequestHandler):
    """One that prints nothing of what it is asked."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(server: TCPServer) -> Iterator[str]:
    """Run a server of Python's in a thread; its address as HOST:PORT."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host, port = server.server_address[:2]
    try:
        yield f"{host!s}:{port}"
    finally:
        server.shutdown()
        thread.join(timeout=patience())
        server.server_close()
