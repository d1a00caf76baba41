"""Who tells Prometheus about this host: the node exporter's package, and whoever has its port."""

from typing import Any

from host.state.readers import lines, text
from host.state.sockets import listening

PACKAGE, PORT = "prometheus-node-exporter", 9100


def read(root: str) -> dict[str, Any]:
    """Return another program that has the port, and whether the package is there, and by us."""
    holders = [
        process
        for socket in listening()
        if (socket["kind"], socket["port"]) == ("tcp", PORT)
        for process in socket["processes"]
        if not process["cgroup"].endswith(f"/{PACKAGE}.service")
    ]
    status = lines("dpkg-query", "--show", "--showformat=${db:Status-Status}", PACKAGE)
    return {
        "holder": "{command} (pid {pid})".format(**holders[0]) if holders else None,
        "installed": status == ["installed"],
        "ours": PACKAGE in (text(f"{root}/state/installed") or "").splitlines(),
    }
