"""The metrics of a Spark's host for Prometheus: GPU, engine, memory, disks."""

from pyinfra.api import deploy

from sparkwright.monitoring.node_exporter import SOCKET, TIMER, metrics_units
from sparkwright.monitoring.operations import host_metrics
from sparkwright.release.programs import program_files
from sparkwright.run.target import target

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
        programs=program_files(own.root),
        units=metrics_units(names, own.root, own.fabric),
    )
