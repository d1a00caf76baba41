"""The node exporter of a Spark, and what its units give Prometheus of the host."""

from sparkwright.common.facts import HostFact
from sparkwright.monitoring.node_exporter import ExporterState, exporter_script, parse_exporter


class Exporter(HostFact[ExporterState]):
    """The node exporter and our units beside it, in one command."""

    command = staticmethod(exporter_script)
    parse = staticmethod(parse_exporter)
