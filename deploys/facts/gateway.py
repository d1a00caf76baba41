"""The state of the gateway's service, and who has its port."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyinfra.api import FactBase

UNIT = "gateway.service"


@dataclass(frozen=True)
class GatewayState:
    """The gateway on its host.

    Attributes:
        outdated: One of its files changed after it had started (to the second).
        holder: Another program that listens on its port, such as ``nginx (process 812)``.
        status: What it says of the replicas; empty where it does not run.
    """

    active: bool
    enabled: bool
    outdated: bool
    holder: str | None
    status: str


class Gateway(FactBase[GatewayState]):
    """The state of the gateway in relation to the files that configure it."""

    def command(self, port: int, files: Sequence[str]) -> str:
        paths = " ".join(map(shlex.quote, files))
        return f"""
show() {{ systemctl show --value --property="$1" {UNIT}; }}
changed=$(stat --format=%Y -- {paths} 2>/dev/null | sort -n | tail -n 1)
echo "active $(show ActiveState)"
echo "enabled $(systemctl is-enabled {UNIT} 2>/dev/null)"
echo "started $(date --date="$(show ActiveEnterTimestamp | grep . || echo @0)" +%s)"
echo "changed ${{changed:-0}}"
echo "process $(show MainPID)"
echo "status $(show StatusText)"
ss --no-header --listening --tcp --numeric --processes 'sport = :{port}' | sed 's/^/socket /'"""

    def process(self, output: Iterable[str]) -> GatewayState:
        lines = [line.partition(" ") for line in output]
        values = {key: value for key, _, value in lines if key != "socket"}
        sockets = [value for key, _, value in lines if key == "socket"]
        holders = [_holder(line) for line in sockets if f"pid={values['process']}," not in line]
        return GatewayState(
            active=values["active"] == "active",
            enabled=values["enabled"] == "enabled",
            outdated=int(values["changed"]) > int(values["started"]),
            holder=next(iter(holders), None),
            status=values["status"],
        )


def _holder(line: str) -> str:
    """Name a program by a line of ss, which ends in ``users:(("nginx",pid=812,fd=6))``."""
    name, _, rest = line.partition('users:(("')[2].partition('",pid=')
    return f"{name} (process {rest.partition(',')[0]})" if name else "a program without a name"
