"""Requests to hubs and registries, whose errors name the server and the way to it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from requests import PreparedRequest, Response, Session

from sparkwright.common.errors import PlanError

T = TypeVar("T")
Headers = Mapping[str, str]
NO_HEADERS: Headers = MappingProxyType({})

# Seconds to connect, and between two packets.
_TIMEOUT = (10, 30)
# The errors of reading an answer that is not in the expected format.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class WebClient(Session):
    """A session that knows the system's authorities, and no login but the one that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.headers.update({"Accept-Encoding": "identity", "User-Agent": "sparkwright"})
        # A site's own authorities are among the system's; the library brings a list of its own.
        known = ssl.get_default_verify_paths()
        self.verify = known.cafile or known.capath or True
        # Without this, requests sends a login that it finds in ~/.netrc.
        self.auth = _unchanged

    def ask(self, url: str, headers: Headers = NO_HEADERS, stream: bool = False) -> Response:
        """Return an answer; to `stream`, its content is not read yet."""
        return self.get(url, headers=headers, stream=stream, timeout=_TIMEOUT)

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Give no login to another host: neither the present one, nor one of ~/.netrc."""
        if origin(str(response.request.url)) != origin(str(prepared_request.url)):
            prepared_request.headers.pop("Authorization", None)


def _unchanged(request: PreparedRequest) -> PreparedRequest:
    return request


def origin(url: str) -> tuple[str, str]:
    """Return the scheme and the host of a URL."""
    return urlsplit(url)[:2]


def look_up(ask: Callable[[WebClient], T], where: str, server: str, kind: str, setting: str) -> T:
    """Ask a server about one name; an error becomes a PlanError.

    Args:
        where: Address and name, for messages.
        server: "Hub" or "registry".
        kind: The expected kind of answer.
        setting: What declares the address.
    """
    try:
        return ask(WebClient())
    except OSError as error:
        problem = f"no answer from the {server} ({error}); check the network and {setting}"
        raise PlanError(f"{where}: {problem}{_way()}") from None
    except _MALFORMED as error:
        found = f"an answer that is no {kind} ({error!r})"
        raise unexpected(where, found, f"a {server.lower()}") from None


def unexpected(where: str, found: str, expected: str) -> PlanError:
    """Return the error for an answer of a server."""
    return PlanError(f"{where}: found {found}; expected {expected}")


def _way() -> str:
    """Return how this machine reaches the internet, for an error, without a proxy's login."""
    known = {name: url.rpartition("@")[2] for name, url in getproxies().items() if url}
    if not known.keys() & {"http", "https", "all"}:
        return "; this machine uses no proxy (HTTPS_PROXY is not set)"
    order = ("http", "https", "all", "no")
    shown = (f"{name.upper()}_PROXY={known[name]}" for name in order if name in known)
    return f"; this machine uses {', '.join(shown)}"
