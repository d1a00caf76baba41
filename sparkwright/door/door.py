"""The door: what the LAN reaches of a replica, and what its files say; `door_state` reads it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address

from sparkwright.common.render import render
from sparkwright.door.certificate import Certificate
from sparkwright.door.key import Key
from sparkwright.fleet.settings import Settings

UNIT = "door.service"

# What scanners of networks expect: each session with keys of its own, that nothing else can be read
# by, and ciphers that authenticate.
_TLS = "ssl-min-ver TLSv1.2 ciphers ECDHE+AESGCM:ECDHE+CHACHA20 no-tls-tickets alpn http/1.1"
# Requests and connections a minute that a source without a key has at least: someone who asks ten
# times a second for /health.
_OFTEN = 600
# The secrets that haproxy reads beside its configuration, by their names in its folder.
KEYS, CERTIFICATE, CONFIG = "keys", "certificate.pem", "door.cfg"


@dataclass(frozen=True)
class DoorPlan:
    """The door of one replica.

    Attributes:
        bind: Address on which it listens.
        keys: What it knows of those that open it (`Key.line`); None where it is open to all.
        certificate: What it shows its clients; None without TLS.
        max_body_mib: MiB of the largest request.
        max_connections: How many clients at the same time.
        stranger_connections: How many of them from one source that has shown no key.
        key_requests: How many requests each name has a minute; None for as many as it likes.
        hold_seconds: How long a request waits for an engine while none serves.
        behind: haproxy's name of what its requests go to; of `engines` it knows whether they serve.
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
        """True where what clients send to it can be read on the way."""
        return self.certificate is None and not ip_address(self.bind).is_loopback

    def files(self, template: str, root: str) -> dict[str, str | None]:
        """Return the files of haproxy's folder by name, in the order in which they take effect.

        Args:
            template: files/door/door.cfg.
            root: Folder of everything on the Spark.

        Returns:
            Their texts; None for one that must not be there.
        """
        keys = None if self.keys is None else "".join(f"{key}\n" for key in self.keys)
        certificate = self.certificate.pem if self.certificate else None
        bind = f"{self.bind}:{self.port}"
        if certificate:
            bind += f" ssl crt {CERTIFICATE} {_TLS}"
        values = {
            "root": root,
            "plan": self,
            "bind": bind,
            "scheme": "https" if certificate else "http",
            # Where there is no key, there is nobody to keep places for.
            "most": self.max_connections * (4 if keys is None else 3) // 4,
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
    """Return the door of a replica, or of the gateway.

    Args:
        settings: Those of its host.
        port: TCP port.
        place: What it is the door of: a replica, or `gateway`.
        keys: The keys of the fleet; None where it is open to all.
        certificate: For TLS.
        hold_seconds: How long a request waits for an engine while none serves; 0 for not at all.
        behind: haproxy's name of what its requests go to.
    """
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
    """Return what a door that runs with these files says of itself.

    Args:
        files: As `DoorPlan.files`.
    """
    found = re.search(r"^ *description (\w+)$", files[CONFIG] or "", re.M)
    return found[1] if found else ""
