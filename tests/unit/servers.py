"""Helpers of tests that start servers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


def free_port() -> int:
    """A TCP port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until a condition holds; fail when it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing within {seconds} s"
        time.sleep(0.02)


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
