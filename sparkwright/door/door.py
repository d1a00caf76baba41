"""The door, through which the LAN reaches a replica: as it is, and as it is planned; its files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from sparkwright.common.part import Ask, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import SOCKETS, Place
from sparkwright.common.render import render
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.key import GATEWAY, Key
from sparkwright.machine.host.state import KnownUnit

if TYPE_CHECKING:
    from sparkwright.door.certificates import Certificate

UNIT = "door.service"
# The template of the second one on a Spark.
SEAT_UNIT = "door@.service"

_TEMPLATE = HOST_FILES / "door" / "door.cfg"
# As security scanners expect: forward secrecy, and authenticating ciphers.
_TLS = "ssl-min-ver TLSv1.2 ciphers ECDHE+AESGCM:ECDHE+CHACHA20 no-tls-tickets alpn http/1.1"
# The least limit of requests and connections a minute for a source without a key: ten requests of
# /health a second.
_OFTEN = 600
# Files in haproxy's folder: its secrets, and its configuration.
KEYS, CERTIFICATE, CONFIG = "keys", "certificate.pem", "door.cfg"
# The backend of a replica's engines.
ENGINES = "engines"


def door_unit(place: str) -> str:
    """Return the unit of a seat's door."""
    seat = Place(place).seat
    return f"door@{seat}.service" if seat else UNIT


def door_folder(place: str) -> str:
    """Return the folder of haproxy's files, by no link of a seat's."""
    own = Place(place)
    return f"{own.root}/door/seats/{own.seat}" if own.seat else f"{place}/door"


class DoorState(Part):
    """The door of a seat, or of the gateway, as it is.

    Attributes:
        installed: Version of haproxy; None where it is missing.
        stray: haproxy's own service came with our package, and is on without doing anything.
        elsewhere: The address on which it is to listen is none of this host's.
        taken: Programs of others that listen on the door's port, as in "nginx (pid 7)".
        unit: None without systemd.
        version: Of haproxy as it runs.
        mark: What the door that runs was made of; "" while it does not run.
    """

    part: ClassVar = "door"

    installed: str | None
    stray: bool
    elsewhere: bool
    taken: tuple[str, ...]
    unit: KnownUnit | None
    version: str
    mark: str


class IssuedToDoors(Part):
    """What a site has issued to the doors of a Spark; a certificate is of its own authority."""

    part: ClassVar = "door.issued"

    keys: bool
    certificate: bool


def ask_door(place: str, bind: str, port: int, unit: str = "") -> Ask[DoorState]:
    """Return the ask for the door of a seat, which is to listen there, or of another unit."""
    return DoorState.ask(root=place, bind=bind, port=port, unit=unit)


@dataclass(frozen=True)
class DoorPlan:
    """The door of one replica, or of the gateway.

    Attributes:
        place: The replica, or `gateway`.
        keys: Those of the fleet; None if it is open to all.
        certificate: Its certificate; None without TLS.
        hold_seconds: Seconds for which a request waits while no engine serves; 0 for none.
        behind: haproxy's backend for requests; it knows whether those of `engines` serve.
    """

    settings: Settings
    port: int
    place: str
    keys: Sequence[Key] | None
    certificate: Certificate | None
    hold_seconds: int
    behind: str = ENGINES

    def obstacle(self, state: DoorState) -> str:
        """Return why the door cannot listen on its host; "" where it can."""
        if state.elsewhere:
            return (
                f"found bind {self.settings.bind}, which is no address of this host; expected one "
                "of its own, or 0.0.0.0 for all of them: `bind` in the group data."
            )
        if not state.taken:
            return ""
        whose = "gateway" if self.place == GATEWAY else "replica"
        return (
            f"port {self.port} is taken by {' and '.join(state.taken)}. "
            f"Stop it, or give the {whose} another `port:` in the inventory."
        )

    def files(self, root: str) -> dict[str, str | None]:
        """Return the texts of haproxy's files by name, in the order in which they take effect.

        A file with None must be absent.
        """
        keys = None
        if self.keys is not None:
            opening = (key for key in self.keys if key.opens(self.place))
            keys = "".join(f"{key.line(self.place)}\n" for key in opening)
        certificate = self.certificate.pem if self.certificate else None
        bind = f"{self.settings.bind}:{self.port}"
        if certificate:
            bind += f" ssl crt {CERTIFICATE} {_TLS}"
        rate, strangers = self.settings.key_requests, self.settings.stranger_connections
        values = {
            "root": root,
            # What starts usually take, by `sparkwright-host door`.
            "again": f'"%[str(again),map({root}/door/choice.map,10)]"',
            "jail": f"{root}/{SOCKETS}" if self.behind == ENGINES else "/var/lib/haproxy",
            "door": self,
            "settings": self.settings,
            "bind": bind,
            # The places of a name.
            "share": self.settings.max_connections // 4,
            "often": max(_OFTEN, 2 * strangers),
            "rate": f"gt {rate}" if rate else "lt 0",
        }
        content = [render(_TEMPLATE, **values, mark="MARK"), keys, certificate]
        made_of = sha256(json.dumps(content).encode()).hexdigest()
        text = render(_TEMPLATE, **values, mark=made_of)
        return {KEYS: keys, CERTIFICATE: certificate, CONFIG: text}


def mark(files: Mapping[str, str | None]) -> str:
    """Return the mark by which a running door shows that it has loaded `DoorPlan.files`."""
    found = re.search(r"^ *description (\w+)$", files[CONFIG] or "", re.M)
    return found[1] if found else ""
