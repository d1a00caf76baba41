"""The firewall, ufw: its rules, the ports of sshd, and the containers that pass it."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from host.state import docker
from host.state.readers import UnknownError, is_there, lines, run, text
from host.state.sockets import listening

_RULE = re.compile(r"ufw (?P<text>.*?)(?: comment '(?:sparkwright (?P<purpose>\w+)|[^']*)')?")
_RULES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")
_SESSION = re.compile(r"(?:^|\0)SSH_CONNECTION=[^\0]* (\d+)(?:\0|$)")
_PARENT = re.compile(r"(?m)^PPid:\s*(\d+)")
_UNITS = ("ufw.service", "ssh.socket", "firewalld.service")
_PROPERTIES = "ActiveState,Listen,UnitFileState"
_LISTEN = re.compile(r":(\d+) \(Stream\)")


def read(root: str) -> dict[str, Any]:
    """Return the firewall; `active` is None where that is unknown."""
    status = _status()
    shown = run("systemctl", "show", f"--property={_PROPERTIES}", *_UNITS).stdout.split("\n\n")
    ufw, ssh, firewalld = [*shown, "", ""][: len(_UNITS)]
    is_on = re.search(r"(?im)^ENABLED=yes$", text("/etc/ufw/ufw.conf") or "") is not None
    return {
        "installed": status is not None,
        "active": {"Status: active": True, "Status: inactive": False, None: False}.get(status),
        "at_boot": is_on and "UnitFileState=enabled" in ufw,
        "status": status or "",
        "rules": list(_rules()),
        "ssh": sorted({*_ssh_ports(ssh)}),
        "turned_on": (text(f"{root}/state/firewall") or "").strip() == "on",
        "other": "firewalld" if "ActiveState=active" in firewalld else None,
        "published": list(_published()),
    }


def _status() -> str | None:
    """Return the first line of `ufw status`, or its error; None without ufw."""
    # ufw's own first question (backend_iptables.py), which costs a tenth of `ufw status`.
    if is_there("ufw") and run("iptables", "-nL", "ufw-user-input").returncode == 1:
        return "Status: inactive"
    done = run("ufw", "status")
    # It may print warnings before its status.
    said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
    if done.returncode == 127 and not said:
        return None
    return next((line for line in said if line.startswith("Status: ")), said[0] if said else "")


def _rules() -> Iterator[dict[str, str | None]]:
    # Without rules of an owner there is nothing to ask for.
    if any("### tuple ###" in (text(path) or "") for path in _RULES):
        yield from (
            match.groupdict()
            for line in lines("ufw", "show", "added")
            if (match := _RULE.fullmatch(line.strip()))
        )


def _ssh_ports(unit: str) -> Iterator[int]:
    """Yield the TCP ports that sshd listens on, or will, that of this connection among them."""
    yield from _session_port()
    ports = (line.split() for line in lines("sshd", "-T"))
    yield from (int(words[1]) for words in ports if words[0:1] == ["port"])
    yield from map(int, _LISTEN.findall(unit))
    for socket in listening():
        commands = [each["command"] for each in socket["processes"]]
        if socket["kind"] == "tcp" and "sshd" in commands:
            yield socket["port"]


def _session_port() -> Iterator[int]:
    """Yield the port of this connection, by the environment of a parent: sudo hides it."""
    pid = os.getpid()
    # A process may end, or be another's.
    with suppress(OSError):
        while pid > 1:
            if found := _SESSION.search(text(f"/proc/{pid}/environ") or ""):
                yield int(found[1])
                return
            parent = _PARENT.search(text(f"/proc/{pid}/status") or "")
            pid = int(parent[1]) if parent else 0


def _published() -> Iterator[str]:
    """Yield the containers that other hosts can reach past ufw: NAME (PORTS)."""
    containers: Any = []
    with suppress(UnknownError):
        containers = docker.get("/containers/json") or []
    for container in containers:
        ports = {
            each["PublicPort"]
            for each in container["Ports"]
            if "PublicPort" in each and not each.get("IP", "").startswith(("127.", "::1"))
        }
        if ports:
            name = container["Names"][0].lstrip("/")
            yield f"{name} ({', '.join(map(str, sorted(ports)))})"
