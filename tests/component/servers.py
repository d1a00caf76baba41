"""Helpers of tests that start servers."""

import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import ClassVar

import pytest
import requests

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


class Forwarding(QuietHandler):
    """A proxy for plain http, which notes the URLs that it is asked for."""

    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        """Ask for it, and pass on the answer."""
        self.asked.append(self.path)
        with requests.Session() as direct:
            direct.trust_env = False
            headers = dict(self.headers)
            answer = direct.get(self.path, headers=headers, timeout=patience())
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name not in ("Transfer-Encoding", "Content-Encoding", "Content-Length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)


@contextmanager
def forwarding(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Have this machine's environment name a proxy, also for loopback; the URLs it is asked for."""
    monkeypatch.setattr(Forwarding, "asked", [], raising=False)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Forwarding)) as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:proxy-s3cret@{address}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        yield Forwarding.asked


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
