"""The door: what the LAN reaches of a replica, and what its files say; `door_state` reads it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address

from deploys.plan.certificate import Certificate
from deploys.plan.errors import PlanError
from deploys.plan.key import Key
from deploys.plan.render import render

UNIT = "door.service"
# haproxy takes 16 KiB of memory for each; a line of the kernel's file table holds a million.
_CONNECTIONS = range(10, 100_001)
_STRANGER = range(1, _CONNECTIONS[-1] + 1)
_BODY_MIB = range(1, 1025)
_HOLD = range(86_401)

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
    *,
    bind: object,
    port: int,
    place: str,
    keys: Sequence[Key] | None,
    certificate: Certificate | None,
    max_body_mib: object,
    max_connections: object,
    stranger_connections: object,
    key_requests: object,
    hold_seconds: object,
    behind: str = "engines",
) -> DoorPlan:
    """Check the settings of a door.

    Args:
        bind: Address on which it listens.
        port: TCP port.
        place: What it is the door of: a replica, or `gateway`.
        keys: The keys of the fleet; None where it is open to all.
        certificate: For TLS.
        max_body_mib: MiB of the largest request.
        max_connections: How many clients at the same time.
        stranger_connections: How many of them from one source that has shown no key.
        key_requests: How many requests each name has a minute; None for as many as it likes.
        hold_seconds: How long a request waits for an engine while none serves; 0 for not at all.
        behind: haproxy's name of what its requests go to.

    Raises:
        PlanError: A setting of the group data cannot be.
    """
    problems = []
    try:
        ip_address(str(bind))
    except ValueError:
        problems.append(f"group_data: bind: found {bind!r}; expected an address, such as 0.0.0.0")
    numbers = {
        "max_body_mib": _BODY_MIB,
        "max_connections": _CONNECTIONS,
        "stranger_connections": _STRANGER,
        "hold_seconds": _HOLD,
    }
    found = {
        "max_body_mib": max_body_mib,
        "max_connections": max_connections,
        "stranger_connections": stranger_connections,
        "hold_seconds": hold_seconds,
    }
    counts = {name: _number(value) for name, value in found.items()}
    problems += [
        f"group_data: {name}: found {found[name]!r}; "
        f"expected a number from {allowed[0]} to {allowed[-1]}"
        for name, allowed in numbers.items()
        if counts[name] not in allowed
    ]
    limit = None if key_requests is None else _number(key_requests)
    if limit is not None and limit < 1:
        problems.append(
            f"group_data: key_requests: found {key_requests!r}; expected a number from 1, or None"
        )
    if problems:
        raise PlanError(*problems)
    return DoorPlan(
        bind=str(bind),
        port=port,
        keys=None if keys is None else tuple(key.line(place) for key in keys if key.opens(place)),
        certificate=certificate,
        key_requests=limit,
        behind=behind,
        **counts,
    )


def _number(value: object) -> int:
    """Return what --data gives as a string, too; -1 for what is no number."""
    return int(str(value)) if re.fullmatch(r"\d{1,9}", str(value)) else -1


def mark(files: Mapping[str, str | None]) -> str:
    """Return what a door that runs with these files says of itself.

    Args:
        files: As `DoorPlan.files`.
    """
    found = re.search(r"^ *description (\w+)$", files[CONFIG] or "", re.M)
    return found[1] if found else ""
