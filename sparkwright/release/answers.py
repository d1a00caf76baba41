"""Bounds of the answers of a hub or registry to this machine, in bytes and seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from httpx2 import Response, SyncByteStream

T = TypeVar("T")

# Bytes of all answers about one name: the largest, the list of a repository's thousands of files,
# has some hundred kilobytes.
MOST = 16 << 20
# Seconds for all answers about one name: usually one second, rarely ten.
LONGEST = 120


class TooMuch(OSError):
    """An answer beyond the bounds, as a part of a sentence."""


class Budget:
    """The bytes left for all answers about one name, redirections included."""

    def __init__(self) -> None:
        self._left = MOST
        self._ends = time.monotonic() + LONGEST

    def bound(self, response: Response) -> None:
        """Bound the body of an answer; httpx calls this before it reads the body."""
        where = response.request.url.copy_with(query=None)
        coding = response.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise TooMuch(f"an answer from {where} compressed by {coding[:20]}, unasked")
        assert isinstance(response.stream, SyncByteStream)
        response.stream = _BoundedBody(response.stream, lambda size: self._take(size, str(where)))

    def _take(self, size: int, where: str) -> None:
        self._left -= size
        if self._left < 0:
            raise TooMuch(f"answers of more than {MOST:,} bytes, the last from {where}")
        if time.monotonic() > self._ends:
            raise TooMuch(f"no end of the answer from {where} within {LONGEST} s")


class _BoundedBody(SyncByteStream):
    def __init__(self, stream: SyncByteStream, take: Callable[[int], None]) -> None:
        self._stream = stream
        self._take = take

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            self._take(len(part))
            yield part

    def close(self) -> None:
        self._stream.close()


def in_time(ask: Callable[[], T]) -> T:
    """Call a function, and return its result or raise its error, within `LONGEST` seconds.

    A server that sends a byte from time to time passes the other bounds: the connection's timeout
    is between two packets, and the library reads the head of an answer.

    Raises:
        TooMuch: It takes longer; it goes on in a daemon thread.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return answer.result(timeout=LONGEST)
    except TimeoutError:
        if answer.done():
            raise
        raise TooMuch(f"no whole answer within {LONGEST} s") from None
