"""The plan of the door, through which the LAN reaches a replica, and the door's files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING

from sparkwright.common.placed import SOCKETS, seat_of
from sparkwright.common.render import render
from sparkwright.door.key import Key
from sparkwright.fleet.settings import Settings

if TYPE_CHECKING:
    from sparkwright.door.certificates import Certificate

UNIT = "door.service"
# The template of the second one on a Spark.
SEAT_UNIT = "door@.service"

# As security scanners expect: forward secrecy, and authenticating ciphers.
_TLS = "ssl-min-ver TLSv1.2 ciphers ECDHE+AESGCM:ECDHE+CHACHA20 no-tls-tickets alpn http/1.1"
# The least limit of requests and connections a minute for a source without a key: ten requests of
# /health a second.
_OFTEN = 600
# Files in haproxy's folder: its secrets, and its configuration.
KEYS, CERTIFICATE, CONFIG = "keys", "certificate.pem", "door.cfg"


def door_unit(place: str) -> str:
    """Return the unit of a seat's door."""
    seat = seat_of(place)
    return f"door@{seat}.service" if seat else UNIT


@dataclass(frozen=True)
class DoorPlan:
    """The door of one replica.

    Attributes:
        bind: Address on which it listens.
        keys: A line for each key that opens it (`Key.line`); None if it is open to all.
        certificate: Its certificate; None without TLS.
        max_body_mib: MiB of the largest request.
        max_connections: Number of clients at the same time.
        stranger_connections: Number of them from one source that has shown no key.
        key_requests: Requests a minute for each name; None for any number.
        hold_seconds: Seconds for which a request waits while no engine serves; 0 for none.
        behind: haproxy's backend for requests; it knows whether those of `engines` serve.
    """

    bind: str
    port: int
    keys: tuple[str, ...] | None
    certificate: Certificate | None
    max_body_mib: int
    max_connections: int
    stranger_connections: int
    key_requests: int | None
    hold_seconds: int
    behind: str = "engines"

    @property
    def in_the_clear(self) -> bool:
        """True if the network can read what clients send."""
        return self.certificate is None and not ip_address(self.bind).is_loopback

    def files(self, template: str, root: str) -> dict[str, str | None]:
        """Return the files of haproxy's folder by name, in the order in which they take effect.

        Returns:
            Their texts; None for a file that must be absent.
        """
        keys = None if self.keys is None else "".join(f"{key}\n" for key in self.keys)
        certificate = self.certificate.pem if self.certificate else None
        bind = f"{self.bind}:{self.port}"
        if certificate:
            bind += f" ssl crt {CERTIFICATE} {_TLS}"
        values = {
            "root": root,
            "jail": f"{root}/{SOCKETS}" if self.behind == "engines" else "/var/lib/haproxy",
            "plan": self,
            "bind": bind,
            "scheme": "https" if certificate else "http",
            # The places of a name.
            "share": self.max_connections // 4,
            "often": max(_OFTEN, 2 * self.stranger_connections),
            "rate": f"gt {self.key_requests}" if self.key_requests else "lt 0",
        }
        content = [render(template, **values, mark="MARK"), keys, certificate]
        made_of = sha256(json.dumps(content).encode()).hexdigest()
        text = render(template, **values, mark=made_of)
        return {KEYS: keys, CERTIFICATE: certificate, CONFIG: text}


def door_plan(
    settings: Settings,
    *,
    port: int,
    place: str,
    keys: Sequence[Key] | None,
    certificate: Certificate | None,
    hold_seconds: int,
    behind: str = "engines",
) -> DoorPlan:
    """Return the door of a replica, or of the gateway."""
    return DoorPlan(
        bind=settings.bind,
        port=port,
        keys=None if keys is None else tuple(key.line(place) for key in keys if key.opens(place)),
        certificate=certificate,
        max_body_mib=settings.max_body_mib,
        max_connections=settings.max_connections,
        stranger_connections=settings.stranger_connections,
        key_requests=settings.key_requests,
        hold_seconds=hold_seconds,
        behind=behind,
    )


def mark(files: Mapping[str, str | None]) -> str:
    """Return the mark by which a running door shows that it has loaded `DoorPlan.files`."""
    found = re.search(r"^ *description (\w+)$", files[CONFIG] or "", re.M)
    return found[1] if found else ""
