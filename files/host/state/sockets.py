"""The sockets of a host that others can send to, and whose they are."""

import re
from typing import Any

from host.state.docker import engine_containers
from host.state.readers import lines, once, word

_PID = re.compile(r"pid=(\d+)")
# Whose name has a line feed, which ends a line of ss's before the process' id.
_HIDDEN = {"pid": 0, "command": "\n", "cgroup": ""}


def read(root: str = "") -> dict[str, Any]:
    """Return all listening sockets, and the ids of our engines' containers."""
    return {"sockets": listening(), "engines": [each["Id"] for each in engine_containers()]}


@once
def listening() -> list[dict[str, Any]]:
    """Return the listening sockets of TCP and UDP: kind, address, port, and their processes."""
    found = []
    for line in lines("ss", "-Hltnup"):
        fields = line.split(None, 6)
        if len(fields) < 5 or fields[0] not in ("tcp", "udp"):
            continue
        address, _, port = fields[4].rpartition(":")
        pids = sorted({int(pid) for pid in _PID.findall(line)})
        processes = [process(pid) for pid in pids]
        found.append(
            {
                "kind": fields[0],
                "address": address.partition("%")[0].strip("[]"),
                "port": int(port) if port.isdecimal() else 0,
                "processes": processes or [_HIDDEN] * (len(fields) > 6),
            }
        )
    return found


@once
def process(pid: int) -> dict[str, Any]:
    """Return a process: its id, its name, and its cgroup; both are "" once it has ended."""
    return {
        "pid": pid,
        "command": word(f"/proc/{pid}/comm"),
        "cgroup": word(f"/proc/{pid}/cgroup").rpartition("::")[2],
    }
