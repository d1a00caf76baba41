"""The node exporter of a Spark, and the units that tell of its GPU and engine."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkwright.common.host_output import MARK, sections
from sparkwright.common.ports import EXPORTER_PORT
from sparkwright.machine.host.state import UnitState
from sparkwright.machine.host.units import parse_units, units_script

PACKAGE = "prometheus-node-exporter"
EXPORTER = f"{PACKAGE}.service"
# A head writes for its exporter; a worker answers its head, on the fabric.
TIMER, SOCKET = "spark-metrics.timer", "fabric-metrics.socket"
# Scrapes at once. Each that hangs keeps its place for ever: more of them get a 503 at once.
_SCRAPES = 4


@dataclass(frozen=True)
class ExporterState:
    """The node exporter of a Spark, and our units beside it.

    Attributes:
        listener: Another program that has the exporter's port; None without one.
        installed: Its package is.
        ours: We installed it, or nobody did.
        units: Exporter, timer and socket, by name.
    """

    listener: str | None
    installed: bool
    ours: bool
    units: Mapping[str, UnitState]

    @property
    def foreign(self) -> str | None:
        """Whose exporter it is, for people, where it is to be left alone."""
        if self.listener:
            return f"port {EXPORTER_PORT} is held by {self.listener}"
        return None if self.ours else f"{PACKAGE} was here before"


def exporter_defaults(root: str) -> str:
    """Return the settings of the exporter's package.

    On a GB10 a read of cpufreq may never return (prometheus/node_exporter#3791).
    """
    options = (
        f"--web.listen-address=127.0.0.1:{EXPORTER_PORT}",
        f"--web.max-requests={_SCRAPES}",
        "--no-collector.cpufreq",
        f"--collector.textfile.directory={root}/metrics",
    )
    return (
        "# Of sparkwright/monitoring. The door of the replica lets Prometheus in.\n"
        f'ARGS="{" ".join(options)}"\n'
    )


def exporter_script(root: str, files: Mapping[str, Iterable[str]]) -> str:
    """Return the POSIX shell script that reads the state; it exits 0."""
    return f"""
echo {MARK}listener
for pid in $(ss -Hltnp 'sport = :{EXPORTER_PORT}' 2>/dev/null |
  grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  grep -qs '/{EXPORTER}$' /proc/$pid/cgroup || echo "$(cat /proc/$pid/comm) (pid $pid)"
done
echo {MARK}package
dpkg-query --show --showformat='${{db:Status-Status}}\\n' {PACKAGE} 2>/dev/null
grep -sx {PACKAGE} {shlex.quote(root)}/state/installed
{units_script(files)}
true"""


def parse_exporter(output: Iterable[str]) -> ExporterState:
    """Return the state that the script's output lines describe.

    Raises:
        ValueError: A section is missing.
    """
    found = sections(output)
    listener, package = found["listener"], found["package"]
    installed = "installed" in package
    return ExporterState(
        listener=listener[0] if listener else None,
        installed=installed,
        ours=not installed or PACKAGE in package,
        units=parse_units(found, [name for name in found if "." in name]),
    )
