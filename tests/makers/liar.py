"""A server that lies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from tests.component.servers import QuietHandler, serving

# What both ends of a connection hold of it unread, at most.
BUFFERS = 16 * 1024 * 1024
PART = bytes(64 * 1024)


class Liar(QuietHandler):
    protocol_version = "HTTP/1.1"
    lie: Callable[["Liar"], None]
    sent = 0
    requests = 0

    def do_GET(self) -> None:
        self.close_connection = True
        type(self).requests += 1
        try:
            type(self).lie(self)
        except OSError:
            return

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Connection", "close")
        self.end_headers()

    def give(self, part: bytes) -> None:
        self.wfile.write(part)
        type(self).sent += len(part)


def endless(liar: Liar) -> None:
    liar.head(200)
    while True:
        liar.give(PART)


Lie = Callable[[Liar], None]


@contextmanager
def lying(lie: Lie) -> Iterator[tuple[type[Liar], str]]:
    liar = type("Taught", (Liar,), {"lie": lie})
    server = ThreadingHTTPServer(("127.0.0.1", 0), liar)
    server.daemon_threads = True
    with serving(server) as address:
        yield liar, f"http://{address}"
