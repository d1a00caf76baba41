"""The state of the gateway's units, and of its port."""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.door.state import stray_script

UNIT, DOOR = "gateway.service", "gateway-door.service"
# In the order of their start.
UNITS = ("gateway.socket", UNIT, DOOR)


@dataclass(frozen=True)
class GatewayState:
    """The gateway on its host.

    Attributes:
        installed: HAProxy is, for its door.
        stray: The distribution's HAProxy service, which came with the package, is on.
        active, enabled: All of its units are.
        outdated: One of its files changed after a unit had started (to the second).
        holder: Another program that listens on its port, such as ``nginx (process 812)``.
        status: Its status line about the replicas; empty where it does not run.
    """

    installed: bool
    stray: bool
    active: bool
    enabled: bool
    outdated: bool
    holder: str | None
    status: str


class GatewayStates(HostFact[GatewayState]):
    """The state of the gateway in relation to the files that configure it."""

    def command(self, root: str, port: int, files: Sequence[str]) -> str:
        paths = " ".join(map(shlex.quote, files))
        units = " ".join(UNITS)
        return f"""
show() {{ systemctl show --value --property="$1" "$2"; }}
changed=$(stat --format=%Y -- {paths} 2>/dev/null | sort -n | tail -n 1)
echo "installed $(command -v haproxy)"
echo "stray" $({stray_script(root)})
echo "active" $(systemctl is-active {units})
echo "enabled" $(systemctl is-enabled {units} 2>/dev/null)
for unit in {UNIT} {DOOR}; do
  echo "started $(date --date="$(show ActiveEnterTimestamp $unit | grep . || echo @0)" +%s)"
done
for pid in $(ss -Hltnp 'sport = :{port}' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  grep -qs -e '/{UNIT}$' -e '/{DOOR}$' "/proc/$pid/cgroup" && echo "process $pid"
done
echo "changed ${{changed:-0}}"
echo "status $(show StatusText {UNIT})"
ss --no-header --listening --tcp --numeric --processes 'sport = :{port}' | sed 's/^/socket /'"""

    def parse(self, output: list[str]) -> GatewayState:
        values: defaultdict[str, list[str]] = defaultdict(list)
        for line in output:
            key, _, value = line.partition(" ")
            values[key].append(value)
        own = [f"pid={process}," for process in values["process"]]
        others = [line for line in values["socket"] if not any(process in line for process in own)]
        return GatewayState(
            installed=values["installed"] != [""],
            stray=bool({"enabled", "active"} & set(values["stray"][0].split())),
            active=values["active"] == [" ".join(["active"] * len(UNITS))],
            enabled=values["enabled"] == [" ".join(["enabled"] * len(UNITS))],
            outdated=int(values["changed"][0]) > min(map(int, values["started"])),
            holder=_holder(others[0]) if others else None,
            status=values["status"][0],
        )


def _holder(line: str) -> str:
    """Name a program by a line of ss, which ends in ``users:(("nginx",pid=812,fd=6))``."""
    name, _, rest = line.partition('users:(("')[2].partition('",pid=')
    return f"{name} (process {rest.partition(',')[0]})" if name else "a program without a name"
