"""Requests to hubs and registries: bounded answers, and errors that name the server and the way."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

from requests import Response, Session

from sparkwright.common.errors import PlanError

T = TypeVar("T")
Headers = Mapping[str, str]
NO_HEADERS: Headers = MappingProxyType({})

# Bytes of all answers about one name: the largest, the list of a repository's thousands of files,
# has some hundred kilobytes.
MOST = 16 << 20
# Seconds for all answers about one name: usually one second, rarely ten.
LONGEST = 120
# Seconds to connect, and between two packets.
_TIMEOUT = (10, 30)
_REDIRECTIONS = 3
_CHUNK = 64 * 1024
# The errors of reading an answer that is not in the expected format.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class TooMuchError(OSError):
    """An answer beyond the bounds; its text is a part of a sentence."""


@dataclass(frozen=True)
class WebAnswer:
    """A whole answer, and the address that gave it."""

    url: str
    status: int
    headers: Headers
    content: bytes

    def json(self) -> Any:
        """Return its content, read as JSON."""
        return json.loads(self.content)


class WebClient:
    """Sends requests; all answers that it reads whole have `MOST` bytes together at most."""

    def __init__(self) -> None:
        self._left = MOST
        self._session = _Session()
        self._session.headers.update({"Accept-Encoding": "identity", "User-Agent": "sparkwright"})
        # The system's authorities, a site's own among them; the library brings a list of its own.
        known = ssl.get_default_verify_paths()
        self._session.verify = known.cafile or known.capath or True
        # Without this, requests sends a login that it finds in ~/.netrc.
        self._session.auth = lambda request: request

    def get(self, url: str, headers: Headers = NO_HEADERS) -> WebAnswer:
        """Return a whole answer."""
        with self.opened(url, headers) as response:
            where = response.url.partition("?")[0]
            if coding := response.headers.get("Content-Encoding", "").replace("identity", ""):
                raise TooMuchError(f"an answer from {where} compressed by {coding[:20]}, unasked")
            content = bytearray()
            for part in response.iter_content(_CHUNK):
                self._left -= len(part)
                if self._left < 0:
                    found = f"answers of more than {MOST:,} bytes, the last from {where}"
                    raise TooMuchError(found)
                content += part
            return WebAnswer(response.url, response.status_code, response.headers, bytes(content))

    @contextmanager
    def opened(self, url: str, headers: Headers) -> Iterator[Response]:
        """Give an answer that is not read yet; a redirection to another host gets no login."""
        for _ in range(_REDIRECTIONS + 1):
            got = self._session.get(url, headers=headers, stream=True, timeout=_TIMEOUT)
            with got as response:
                if not response.is_redirect:
                    yield response
                    return
                following = urljoin(url, response.headers["Location"])
            if origin(following) != origin(url):
                headers = {key: each for key, each in headers.items() if key != "Authorization"}
            url = following
        raise TooMuchError(f"more than {_REDIRECTIONS} redirections, the last to {url[:200]}")


class _Session(Session):
    """A session that follows no redirection: it would read each body on the way, however long."""

    def get_redirect_target(self, resp: Response) -> None:
        return None


def origin(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a URL."""
    return urlsplit(url)[:2]


def look_up(ask: Callable[[WebClient], T], where: str, server: str, kind: str, setting: str) -> T:
    """Ask a server about one name, within `LONGEST` seconds; an error becomes a PlanError.

    That names address and name (`where`), the server ("Hub" or "registry"), the expected kind of
    answer, and the setting that declares the address.
    """
    try:
        return _in_time(ask)
    except TooMuchError as error:
        bounds = f"at most {MOST:,} bytes within {LONGEST} s"
        expected = f"{bounds}: try again later, or take another {server} ({setting})"
        raise unexpected(where, str(error), expected) from None
    except OSError as error:
        problem = f"no answer from the {server} ({error}); check the network and {setting}"
        raise PlanError(f"{where}: {problem}{_way()}") from None
    except _MALFORMED as error:
        found = f"an answer that is no {kind} ({error!r})"
        raise unexpected(where, found, f"a {server.lower()}") from None


def unexpected(where: str, found: str, expected: str) -> PlanError:
    """Return the error for an answer of a server."""
    return PlanError(f"{where}: found {found}; expected {expected}")


def _in_time(ask: Callable[[WebClient], T]) -> T:
    """Return what a function returns, or raise its error, within `LONGEST` seconds.

    The connection's timeout is between two packets: a server that sends a byte from time to time
    passes it. The function then goes on in a daemon thread.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask(WebClient()))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return answer.result(timeout=LONGEST)
    except TimeoutError:
        if answer.done():
            raise
        raise TooMuchError(f"no whole answer within {LONGEST} s") from None


def _way() -> str:
    """Return how this machine reaches the internet, for an error, without a proxy's login."""
    known = {name: url.rpartition("@")[2] for name, url in getproxies().items() if url}
    if not known.keys() & {"http", "https", "all"}:
        return "; this machine uses no proxy (HTTPS_PROXY is not set)"
    order = ("http", "https", "all", "no")
    shown = (f"{name.upper()}_PROXY={known[name]}" for name in order if name in known)
    return f"; this machine uses {', '.join(shown)}"
