"""The node exporter of a Spark, and the units that tell of its GPU and engine."""

import shlex
from collections.abc import Iterable

from sparkwright.common.host_output import MARK, sections
from sparkwright.common.ports import EXPORTER_PORT

PACKAGE = "prometheus-node-exporter"
EXPORTER = f"{PACKAGE}.service"
# A head writes for its exporter; a worker answers its head, on the fabric.
TIMER, SOCKET = "spark-metrics.timer", "fabric-metrics.socket"
# Scrapes at once. Each that hangs keeps its place for ever: more of them get a 503 at once.
_SCRAPES = 4


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


def foreign_script(root: str) -> str:
    """Return the POSIX shell script that reads whose the exporter is; it exits 0."""
    return f"""
echo {MARK}listener
for pid in $(ss -Hltnp 'sport = :{EXPORTER_PORT}' 2>/dev/null |
  grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u); do
  grep -qs '/{EXPORTER}$' /proc/$pid/cgroup || echo "$(cat /proc/$pid/comm) (pid $pid)"
done
echo {MARK}package
dpkg-query --show --showformat='${{db:Status-Status}}\\n' {PACKAGE} 2>/dev/null
grep -sx {PACKAGE} {shlex.quote(root)}/state/installed
true"""


def foreign_exporter(output: Iterable[str]) -> str | None:
    """Return whose the exporter is, for people; None where we have installed it, or nobody has.

    Raises:
        ValueError: A section is missing.
    """
    found = sections(output)
    if listener := found["listener"]:
        return f"port {EXPORTER_PORT} is held by {listener[0]}"
    package = found["package"]
    foreign = "installed" in package and PACKAGE not in package
    return f"{PACKAGE} was here before" if foreign else None
