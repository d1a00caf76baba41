"""The sockets of a host that others can send to, whose they are, and who has a certain port."""

import re
from typing import Any

from host.state.docker import engine_containers
from host.state.readers import lines, once, text, whole, word

_PID = re.compile(r"pid=(\d+)")
EXPORTER, _EXPORTER_PORT = "prometheus-node-exporter", 9100
# A process whose name has a line feed, which ends a line of ss's before the process' id.
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
                "port": whole(port),
                "processes": processes or [_HIDDEN] * (len(fields) > 6),
            }
        )
    return found


def holders(port: int) -> list[dict[str, Any]]:
    """Return the processes that listen on a TCP port."""
    sockets = (each for each in listening() if (each["kind"], each["port"]) == ("tcp", port))
    return [process for each in sockets for process in each["processes"]]


def taken(port: int, unit: str) -> list[str]:
    """Return the programs that listen on a TCP port and are not of a unit: "nginx (pid 7)"."""
    others = (each for each in holders(port) if each["cgroup"].rpartition("/")[2] != unit)
    found = {each["pid"]: each["command"] for each in others}
    return [f"{found[pid]} (pid {pid})" for pid in sorted(found)]


def exporter(root: str) -> dict[str, Any]:
    """Return another program on the node exporter's port, and whose its package is."""
    status = lines("dpkg-query", "--show", "--showformat=${db:Status-Status}", EXPORTER)
    return {
        "holder": next(iter(taken(_EXPORTER_PORT, f"{EXPORTER}.service")), None),
        "installed": status == ["installed"],
        "ours": EXPORTER in (text(f"{root}/state/installed") or "").splitlines(),
    }


@once
def process(pid: int) -> dict[str, Any]:
    """Return a process: its id, its name, and its cgroup; both are "" once it has ended."""
    return {
        "pid": pid,
        "command": word(f"/proc/{pid}/comm"),
        "cgroup": word(f"/proc/{pid}/cgroup").rpartition("::")[2],
    }
