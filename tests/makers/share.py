"""The two Sparks of a pair: one lends by its share, one copies, over a line that can be counted."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.clock import patience
from tests.component.servers import free_port
from tests.programs import changed_program

PROGRAM = """
import sys
from host.network.fabric import file_server
file_server.LISTENING, file_server.IDLE = int(sys.argv.pop(1)), float(sys.argv.pop(1))
file_server.FileServer.timeout = file_server.WAIT = file_server.LOOK = 0.05
file_server.PATIENCE = 0.5
file_server.command()
"""


class Lender:
    def __init__(self, root: Path, clients: Sequence[str], idle: float) -> None:
        self.port = free_port()
        self._arguments = [str(idle), str(root), *clients]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", self.port))
            listening.listen()
            number = str(listening.fileno())
            self.process = subprocess.Popen(
                changed_program(PROGRAM, number, *self._arguments),
                pass_fds=[listening.fileno()],
            )
            return self.process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def get(self, path: str, client: str = "127.0.0.1", more: str = "") -> tuple[int, str]:
        """Ask for a path, exactly as written; return status and body."""
        with socket.create_connection(
            ("127.0.0.1", self.port), patience(), (client, 0)
        ) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n"
            connection.sendall(request.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        head, _, body = answer.partition("\r\n\r\n")
        return int(head.split()[1]), body


@contextmanager
def lending(
    root: Path, clients: Sequence[str] = ("127.0.0.1",), idle: float = 3600
) -> Iterator[Lender]:
    lender = Lender(root, clients, idle)
    try:
        yield lender
    finally:
        lender.kill()


class Line:
    """What lies between the two: counts and bounds what it lets through to the client."""

    def __init__(self, port: int, rate: int = 0) -> None:
        self.rate = rate
        self._sent = 0
        self._clients: list[socket.socket] = []
        self._relays: list[threading.Thread] = []
        self._counting = threading.Lock()
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self) -> int:
        """Bytes that were let through, once every client has gone."""
        for relay in self._relays:
            relay.join(timeout=patience())
        return self._sent

    def cut(self) -> None:
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._clients.append(client)
                self._relays.append(
                    threading.Thread(target=self._relay, args=[client], daemon=True)
                )
                self._relays[-1].start()

    def _relay(self, client: socket.socket) -> None:
        there = ("127.0.0.1", self._port)
        with client, suppress(OSError), socket.create_connection(there) as server:
            threading.Thread(target=_pass_on, args=[client, server], daemon=True).start()
            head = b""
            while b"\r\n\r\n" not in head:
                head += server.recv(1) or b"\r\n\r\n"
            client.sendall(head)
            while data := server.recv(16384):
                client.sendall(data)
                with self._counting:
                    self._sent += len(data)
                time.sleep(len(data) / self.rate if self.rate else 0)


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := client.recv(65536):
            server.sendall(data)
        # The server hears that the client has gone.
        server.shutdown(socket.SHUT_WR)
