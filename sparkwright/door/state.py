"""The door of a Spark as it is: one shell script reads it."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import MARK, sections
from sparkwright.common.placed import SYSTEMD
from sparkwright.door.door import CERTIFICATE, CONFIG, KEYS, SEAT_UNIT, UNIT, door_unit
from sparkwright.machine.host.state import UnitState
from sparkwright.machine.host.units import parse_units, units_script

_UNIT = re.compile(r"door(@[A-Za-z0-9_.-]+)?\.service")


@dataclass(frozen=True)
class DoorState:
    """The door of a Spark as it is.

    Attributes:
        installed: Version of haproxy; None where it is missing.
        stray: haproxy's own service came with our package, and is on without doing anything.
        elsewhere: The address on which it is to listen is none of this Spark's.
        taken: Programs of others that listen on the door's port, as in "nginx (pid 7)".
        there: Something of a door is on this Spark.
        version: Of haproxy as it runs.
        mark: What the door that runs was made of; "" while it does not run.
        files: Mode and SHA-256 of the files in haproxy's folder and of the unit, by name.
    """

    installed: str | None
    stray: bool
    elsewhere: bool
    taken: tuple[str, ...]
    there: bool
    unit: UnitState
    version: str
    mark: str
    files: Mapping[str, tuple[str, str]]


def door_script(root: str, bind: str = "0.0.0.0", port: int = 0) -> str:
    """Return the POSIX shell script that reads the state of the door."""
    at, bind, unit = shlex.quote(root), shlex.quote(bind), door_unit(root)
    path = f"{SYSTEMD}/{SEAT_UNIT if unit != UNIT else UNIT}"
    return f"""
echo {MARK}installed
if command -v haproxy >/dev/null; then haproxy -v | sed -n 's/.*version \\([^ ]*\\).*/\\1/p'; fi
echo {MARK}stray
{stray_script(root)}
echo {MARK}elsewhere
case {bind} in 0.0.0.0 | ::) ;; *) \
[ -n "$(ip -oneline address show to {bind})" ] || echo {bind} ;; esac
echo {MARK}taken
for pid in $(ss -Hltnp 'sport = :{port}' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  grep -qs '/{unit}$' "/proc/$pid/cgroup" || echo "$(cat "/proc/$pid/comm") (pid $pid)"
done
echo {MARK}there
ls -d {at}/door {path} 2>/dev/null
echo {MARK}files
set --
for file in {at}/door/{KEYS} {at}/door/{CERTIFICATE} {at}/door/{CONFIG} {path}; do
  [ ! -f "$file" ] || set -- "$@" "$file"
done
[ $# = 0 ] || {{ sha256sum "$@"; stat --format='%a  %n' "$@"; }}
{units_script({unit: [path]})}
echo {MARK}running
[ -e {at}/bin/sparkwright-host ] && python3 -B {at}/bin/sparkwright-host door {at} running
true"""


def issued_script(root: str) -> str:
    """Return the shell script that prints what a site has issued to doors, then "read".

    That is "keys", and "certificate" for one of a site's own authority.
    """
    at = shlex.quote(root)
    return f"""
for folder in {at}/door {at}/door/seats/* {at}/gateway/door; do
  [ -d "$folder" ] || continue
  ls "$folder" >/dev/null || exit
  [ ! -s "$folder/{KEYS}" ] || echo keys
  openssl x509 -noout -issuer -in "$folder/{CERTIFICATE}" 2>/dev/null |
    grep -q 'Sparkwright: ' && echo certificate
done
echo read"""


def parse_issued(output: Iterable[str]) -> set[str]:
    """Return what the script's output lines name; a ValueError tells that they are cut."""
    *found, end = output
    if end != "read":
        raise ValueError(f"found {end!r}; expected read")
    return set(found)


def stray_script(root: str) -> str:
    """Return the POSIX shell script that tells whether HAProxy's own service is on for nothing.

    It says "enabled" or "active" where we installed the package and its settings are as they came.
    """
    return f"""\
if grep -qsx haproxy {shlex.quote(root)}/state/installed; then
  on=$(systemctl show --property=UnitFileState,ActiveState haproxy.service |
    sed -n 's/.*=\\(enabled\\|active\\)$/\\1/p')
  [ -z "$on" ] || dpkg --verify haproxy 2>/dev/null | grep -q /etc/haproxy/haproxy.cfg || echo "$on"
fi"""


def parse_door(output: Iterable[str]) -> DoorState:
    """Return the state that the script's output lines describe."""
    found = sections(output)
    running = dict(line.split(" ", 1) for line in found["running"] if " " in line)
    name = next((each for each in found if _UNIT.fullmatch(each)), UNIT)
    files: dict[str, list[str]] = {}
    for value, path in (line.split("  ", 1) for line in found["files"]):
        files.setdefault(path.rpartition("/")[2], []).append(value)
    return DoorState(
        installed=next(iter(found["installed"]), None),
        stray=bool({"enabled", "active"} & set(found["stray"])),
        elsewhere=bool(found["elsewhere"]),
        taken=tuple(found["taken"]),
        there=bool(found["there"]),
        unit=parse_units(found, [name])[name],
        version=running.get("version", ""),
        mark=running.get("mark", ""),
        files={name: (mode, content) for name, (content, mode) in files.items()},
    )


class DoorStates(HostFact[DoorState]):
    """The door as it runs, and who else listens on its port, in one command."""

    command = staticmethod(door_script)
    parse = staticmethod(parse_door)


class IssuedToDoors(HostFact[set[str]]):
    """What `issued_script` finds on a Spark."""

    command = staticmethod(issued_script)
    parse = staticmethod(parse_issued)
