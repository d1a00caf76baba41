"""The node exporter of a Spark, and the units that tell of its GPU and engine."""

from typing import ClassVar

from sparkwright.common.part import Part
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


class Exporter(Part):
    """The node exporter of a Spark.

    Attributes:
        holder: another program that has its port; None without one.
        installed: its package is.
        ours: we have installed it.
    """

    part: ClassVar = "exporter"

    holder: str | None
    installed: bool
    ours: bool

    @property
    def foreign(self) -> str | None:
        """Whose exporter it is, for people, where it is to be left alone."""
        if self.holder:
            return f"port {EXPORTER_PORT} is held by {self.holder}"
        return f"{PACKAGE} was here before" if self.installed and not self.ours else None
