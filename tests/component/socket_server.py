"""Servers on the sockets of engines."""

import socket
import socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from host.common.seat import SOCKETS, engine_address


class SocketServer(ThreadingHTTPServer):
    """A server on the socket of an engine, which everybody may reach who reaches its folder."""

    address_family = socket.AF_UNIX
    daemon_threads = True

    def __init__(self, root: Path, release: str, handler: type[BaseHTTPRequestHandler]) -> None:
        self.folder = root / SOCKETS / release
        self.folder.mkdir(parents=True, exist_ok=True)
        with engine_address(root, release) as address:
            Path(address).unlink(missing_ok=True)
            super().__init__(address, handler)  # type: ignore[arg-type]
            Path(address).chmod(0o777)

    def server_bind(self) -> None:
        """Bind; there is no name to look up."""
        socketserver.TCPServer.server_bind(self)
