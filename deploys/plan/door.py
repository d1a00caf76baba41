"""The door: what the LAN reaches of a replica, and what its files say."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address

from deploys.plan.certificate import Certificate
from deploys.plan.errors import PlanError
from deploys.plan.key import Key
from deploys.plan.sections import MARK, sections

UNIT = "door.service"
# haproxy takes 16 KiB of memory for each; a line of the kernel's file table holds a million.
_CONNECTIONS = range(10, 100_001)
_STRANGER = range(1, _CONNECTIONS[-1] + 1)
_BODY_MIB = range(1, 1025)
_HOLD = range(86_401)

_KNOWN = """\
    http-request set-var(txn.key) http_auth_bearer,sha2(256),hex,map_str(keys)
    http-request set-var(txn.key) req.fhdr(x-api-key),sha2(256),hex,map_str(keys) unless { var(txn.key) -m found }
    http-request set-var(txn.end) var(txn.key),field(2,:)
    http-request set-var(txn.name) var(txn.key),field(1,:) if { var(txn.key) -m found } { date,sub(txn.end) lt 0 }
    acl known var(txn.name) -m found
    acl watches var(txn.key),field(3,:) -m str metrics
    http-request track-sc1 src table clients if known
    http-request track-sc2 var(txn.name) table names if known
    acl greedy sc2_conn_cur gt EACH"""  # noqa: E501
_OPEN = """\
    acl known always_true
    acl watches always_false
    acl greedy sc0_conn_cur gt EACH"""
# What scanners of networks expect: each session with keys of its own, that nothing else can be read
# by, and ciphers that authenticate.
_TLS = "ssl-min-ver TLSv1.2 ciphers ECDHE+AESGCM:ECDHE+CHACHA20 no-tls-tickets alpn http/1.1"
# Requests and connections a minute that a source without a key has at least: someone who asks ten
# times a second for /health.
_OFTEN = 600
# The secrets that haproxy reads beside its configuration, by their names in its folder.
_KEYS, _CERTIFICATE, _CONFIG = "keys", "certificate.pem", "door.cfg"


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
        """Whether what clients send to it can be read on the way."""
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
            bind += f" ssl crt {_CERTIFICATE} {_TLS}"
        values = {
            "ROOT": root,
            "BIND": bind,
            "BEHIND": self.behind,
            "SCHEME": "https" if certificate else "http",
            "CONNECTIONS": str(self.max_connections),
            # Where there is no key, there is nobody to keep places for.
            "MOST": str(self.max_connections * (4 if keys is None else 3) // 4),
            "STRANGER": str(self.stranger_connections),
            "OFTEN": str(max(_OFTEN, 2 * self.stranger_connections)),
            "BODY": str(self.max_body_mib),
            "BYTES": str(self.max_body_mib * 1024**2),
            "HOLD": str(self.hold_seconds),
            # Those that wait leave half of the places to others, and one client half of theirs.
            "HELD": str(self.max_connections // 2),
            "EACH": str(self.max_connections // 4),
            "KNOWN": _OPEN if keys is None else _KNOWN,
            "RATE": f"gt {self.key_requests}" if self.key_requests else "lt 0",
        }
        # What stands for KNOWN has such words of its own.
        text = template.replace("KNOWN", values.pop("KNOWN"))
        text = re.sub(rf"\b({'|'.join(values)})\b", lambda found: values[found[1]], text)
        mark = sha256(json.dumps([text, keys, certificate]).encode()).hexdigest()
        text = text.replace("MARK", mark)
        return {_KEYS: keys, _CERTIFICATE: certificate, _CONFIG: text}


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


@dataclass(frozen=True)
class DoorState:
    """The door of a Spark as it is.

    Attributes:
        installed: Version of haproxy; None where it is missing.
        stray: haproxy's own service came with our package, and is on without doing anything.
        elsewhere: The address on which it is to listen is none of this Spark's.
        taken: Programs of others that listen on the door's port, as in "nginx (pid 7)".
        there: Something of a door is on this Spark.
        active, enabled: Of its unit.
        outdated: The unit changed after the door had started.
        version: Of haproxy as it runs.
        mark: What the door that runs was made of; "" while it does not run.
        files: Mode and SHA-256 of the files in haproxy's folder and of the unit, by name.
    """

    installed: str | None
    stray: bool
    elsewhere: bool
    taken: tuple[str, ...]
    there: bool
    active: bool
    enabled: bool
    outdated: bool
    version: str
    mark: str
    files: Mapping[str, tuple[str, str]]


def door_script(root: str, bind: str, port: int) -> str:
    """Return the POSIX shell script that reads the state of the door.

    Args:
        root: Folder of everything on the Spark.
        bind, port: Where it is to listen.
    """
    values = {"ROOT": shlex.quote(root), "BIND": shlex.quote(bind), "PORT": str(port)}
    return re.sub(r"\b(ROOT|BIND|PORT)\b", lambda found: values[found[1]], _STATE)


# Says "enabled" or "active" of the package's own service, where we installed it and its settings
# are as they came.
STRAY = """\
if grep -qsx haproxy ROOT/state/installed &&
   ! dpkg --verify haproxy 2>/dev/null | grep -q /etc/haproxy/haproxy.cfg; then
  systemctl is-enabled haproxy.service 2>/dev/null
  systemctl is-active haproxy.service
fi"""
_STATE = f"""
echo {MARK}installed
if command -v haproxy >/dev/null; then haproxy -v | sed -n 's/.*version \\([^ ]*\\).*/\\1/p'; fi
echo {MARK}stray
{STRAY}
echo {MARK}elsewhere
case BIND in 0.0.0.0 | ::) ;; *) [ -n "$(ip -oneline address show to BIND)" ] || echo BIND ;; esac
echo {MARK}taken
for pid in $(ss -Hltnp 'sport = :PORT' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  grep -qs '/{UNIT}$' "/proc/$pid/cgroup" || echo "$(cat "/proc/$pid/comm") (pid $pid)"
done
echo {MARK}there
ls -d ROOT/door /etc/systemd/system/{UNIT} 2>/dev/null
echo {MARK}files
for file in {_KEYS} {_CERTIFICATE} {_CONFIG} /etc/systemd/system/{UNIT}; do
  cd ROOT/door 2>/dev/null
  [ ! -f "$file" ] || sha256sum "$file" | sed "s/ .*/ $(stat --format=%a "$file") ${{file##*/}}/"
done
echo {MARK}unit
systemctl is-active {UNIT}
systemctl is-enabled {UNIT} 2>/dev/null
started=$(systemctl show --value --property=ActiveEnterTimestamp {UNIT})
changed=$(stat --format=%Y /etc/systemd/system/{UNIT} 2>/dev/null)
[ "${{changed:-0}}" -le "$(date --date="${{started:-@0}}" +%s)" ] || echo outdated
echo {MARK}running
[ -e ROOT/bin/door.py ] && python3 -B ROOT/bin/door.py ROOT running
true"""


def parse_door(output: Iterable[str]) -> DoorState:
    """Return the state that the script's output lines describe.

    Raises:
        ValueError: A section is missing.
    """
    found: Mapping[str, list[str]] = sections(output)
    try:
        running = dict(line.split(" ", 1) for line in found["running"] if " " in line)
        return DoorState(
            installed=next(iter(found["installed"]), None),
            stray=bool({"enabled", "active"} & set(found["stray"])),
            elsewhere=bool(found["elsewhere"]),
            taken=tuple(found["taken"]),
            there=bool(found["there"]),
            active="active" in found["unit"],
            enabled="enabled" in found["unit"],
            outdated="outdated" in found["unit"],
            version=running.get("version", ""),
            mark=running.get("mark", ""),
            files={
                name: (mode, content)
                for content, mode, name in (line.split(" ") for line in found["files"])
            },
        )
    except KeyError as error:
        raise ValueError(f"found no section {error}") from error


def mark(files: Mapping[str, str | None]) -> str:
    """Return what a door that runs with these files says of itself.

    Args:
        files: As `DoorPlan.files`.
    """
    found = re.search(r"^ *description (\w+)$", files[_CONFIG] or "", re.M)
    return found[1] if found else ""
