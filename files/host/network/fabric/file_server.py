"""serve-files ROOT CLIENT…: lend weights to the Sparks at these addresses, and to no other.

GET /weights/FOLDER/PATH?hash=HASH&size=SIZE is a file of ROOT/FOLDER, while it is as it was when
verified; or one that comes to this Spark just now, as it grows: who copies it verifies it as well.
The socket comes from systemd. Ends when nobody has asked for a while: systemd starts it again.
"""

import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import active_count
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from host.artifacts.weights.hashing_file import File
from host.artifacts.weights.record import entry_of, open_below, read_record
from host.common.command_line import words

# The first socket that systemd passes on.
LISTENING = 3
# Seconds without a request after which the program ends.
IDLE = 120
# Seconds for which a client, or a file that grows, may stand still in the middle.
PATIENCE = 60
# Seconds for which a file that is not here yet is waited for, and between two looks.
WAIT, LOOK = 10.0, 0.1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
_RANGE = re.compile(r"bytes=(\d+)-")


class NotLent(Exception):
    """A refusal to lend something, with the reason that the other Spark shows."""

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        super().__init__(reason)
        self.status = status


@contextmanager
def opened(root: Path, address: str) -> Iterator[tuple[BinaryIO, int]]:
    """Open the file that an address asks for, verified or on its way; give its whole size too.

    Raises:
        NotLent: It is not there, or not what it was when it was verified.
    """
    parts = urlsplit(address)
    kind, name, path = (*parts.path.strip("/").split("/", 2), "", "")[:3]
    if kind != "weights" or not _NAME.fullmatch(name):
        raise NotLent("nothing of that name is lent")
    path, folder, asked = unquote(path), root / name, dict(parse_qsl(parts.query))
    digest, end = asked.get("hash", ""), time.monotonic() + WAIT
    while True:
        entry = (read_record(folder) or {}).get(path)
        is_verified = entry is not None and entry["hash"] == digest
        try:
            descriptor = open_below(folder, path if is_verified else File(path, 0, digest).partial)
            break
        except (OSError, ValueError) as error:
            why = f"cannot be read here: {error}" if is_verified else "is not here yet"
            if is_verified or time.monotonic() > end:
                raise NotLent(f"{path} of {name} {why}") from None
        time.sleep(LOOK)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found, size = os.fstat(descriptor), asked.get("size", "")
        if is_verified and entry != entry_of(found, digest):
            raise NotLent(f"{path} of {name} was changed here since it was verified")
        yield file, found.st_size if is_verified else int(size) if size.isdecimal() else 0


class FileServer(ThreadingHTTPServer):
    """Serves several requests at once, and knows how long nobody has asked."""

    daemon_threads = True
    # A look at the clock this often, in seconds.
    timeout = 2

    def __init__(self, listening: socket.socket, root: Path, clients: list[str]) -> None:
        address = listening.getsockname()
        super().__init__(address, Request, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = address[:2]
        self.root = root
        self.clients = clients
        self._asked = time.time()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a connection."""
        self._asked = time.time()
        return super().get_request()

    def idle(self) -> bool:
        """Tell whether nobody has needed this program for a while: each connection has a thread."""
        return active_count() == 1 and time.time() - IDLE > self._asked

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Name what went wrong in one line: a client that leaves is no fault of this program."""
        print(f"{client_address[0]}: {sys.exception()!r}", file=sys.stderr, flush=True)


class Request(BaseHTTPRequestHandler):
    """One connection of the other Spark."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server: FileServer

    def do_GET(self) -> None:
        """Send a file from where the client's copy ends."""
        try:
            client = self.client_address[0]
            if client not in self.server.clients:
                reason = f"lent to {' and '.join(self.server.clients)} only, not to {client}"
                raise NotLent(reason, HTTPStatus.FORBIDDEN)
            with opened(self.server.root, self.path) as (file, size):
                self._send(file, size)
        except NotLent as refusal:
            text = str(refusal).encode()
            self._head(refusal.status, len(text))
            self.wfile.write(text)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Leave the journal to what goes wrong."""

    def _send(self, file: BinaryIO, size: int) -> None:
        wanted = _RANGE.fullmatch(self.headers.get("Range", "bytes=0-"))
        start = int(wanted[1]) if wanted else size + 1
        if start > size:
            raise NotLent(f"it has {size} bytes", HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        part = f"bytes {start}-{size - 1}/{size}"
        self._head(HTTPStatus.PARTIAL_CONTENT, size - start, {"Content-Range": part})
        os.posix_fadvise(file.fileno(), start, 0, os.POSIX_FADV_SEQUENTIAL)
        grown = time.monotonic()
        while start < size and time.monotonic() < grown + PATIENCE:
            if sent := self.connection.sendfile(file, start, size - start):
                start, grown = start + sent, time.monotonic()
            else:
                time.sleep(LOOK)
        self.close_connection |= start < size

    def _head(self, status: HTTPStatus, length: int, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()


def command() -> None:
    """Serves the clients that the command line names, until they ask no more."""
    root, *clients = words(__doc__, "ROOT", rest="CLIENT")
    with FileServer(socket.socket(fileno=LISTENING), Path(root), clients) as share:
        while not share.idle():
            share.handle_request()
