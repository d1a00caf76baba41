"""Helpers of tests that start servers."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest


def free_port() -> int:
    """A TCP port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds; fail when it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing within {seconds} s"
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


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Run a server of Python's in a thread; its address as HOST:PORT."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    host, port = server.server_address[:2]
    try:
        yield f"{host!s}:{port}"
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()
