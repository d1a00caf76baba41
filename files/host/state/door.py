"""The door of a seat: its package, its unit, what it runs with, and others on its port."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from host.door.door import Door
from host.door.haproxy import DoorError
from host.state.placed import unit_states
from host.state.readers import lines, names, once, run, text
from host.state.sockets import taken

_STRAY = "haproxy.service"


def read(root: str, bind: str = "0.0.0.0", port: int = 0, unit: str = "") -> dict[str, Any]:
    """Return the door of a seat; `unit` is None where there is no systemd.

    Args:
        bind: the address on which the door is to listen.
        unit: of another door, the gateway's.
    """
    door = Door(Path(root))
    unit = unit or door.unit
    running: dict[str, str] = {}
    # A door that does not answer is to read its files anew.
    with suppress(DoorError):
        running = door.haproxy.running()
    anywhere = bind in ("0.0.0.0", "::")
    return {
        "installed": installed(),
        "stray": stray(root),
        "elsewhere": not anywhere and not lines("ip", "-oneline", "address", "show", "to", bind),
        "taken": taken(port, unit),
        "unit": unit_states([unit]).get(unit),
        "version": running.get("version", ""),
        "mark": running.get("mark", ""),
    }


@once
def installed() -> str | None:
    """Return the version of haproxy; None where it is absent."""
    found = re.search(r"version (\S+)", run("haproxy", "-v").stdout)
    return found[1] if found else None


@once
def stray(root: str) -> bool:
    """Tell whether the service of a haproxy that we installed is on, its settings unchanged."""
    if "haproxy" not in (text(f"{root}/state/installed") or "").splitlines():
        return False
    unit = unit_states([_STRAY]).get(_STRAY, {})
    is_on = unit.get("active") == "active" or unit.get("file") == "enabled"
    changed = run("dpkg", "--verify", "haproxy").stdout if is_on else ""
    return is_on and "/etc/haproxy/haproxy.cfg" not in changed


def issued(root: str) -> dict[str, bool]:
    """Tell whether the doors of a host, the gateway's too, have keys, and a site's certificate."""
    seats = [f"{root}/door/seats/{name}" for name in names(f"{root}/door/seats")]
    folders = [f"{root}/door", *seats, f"{root}/gateway/door"]
    return {
        "keys": any(text(f"{folder}/keys", 1) for folder in folders),
        "certificate": any(_is_of_a_site(f"{folder}/certificate.pem") for folder in folders),
    }


def _is_of_a_site(path: str) -> bool:
    if text(path, 1) is None:
        return False
    return "Sparkwright: " in run("openssl", "x509", "-noout", "-issuer", "-in", path).stdout
