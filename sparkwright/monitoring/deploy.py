"""The metrics of a Spark's host for Prometheus: GPU, engine, memory, disks."""

from pyinfra.api import deploy

from sparkwright.common.paths import FILES
from sparkwright.monitoring.node_exporter import SOCKET, TIMER, metrics_units
from sparkwright.monitoring.operations import host_metrics
from sparkwright.run.target import target

_FILES = FILES / "monitoring"
# What each of the two starts.
_SERVICES = {TIMER: "spark-metrics.service", SOCKET: "fabric-metrics@.service"}


@deploy("Metrics")
def apply() -> None:
    """Have a head tell of its host through its door, and a worker through its head's."""
    own = target()
    unit = None
    if own.recipe_name:
        unit = TIMER if own.is_head else SOCKET
    names = (unit, _SERVICES[unit]) if unit else ()
    host_metrics(
        name="GPU, engine and host",
        root=own.root,
        unit=unit,
        program=(_FILES / "spark_metrics.py").read_text(),
        units=metrics_units(names, own.root, own.fabric),
    )
