"""The node exporter of a Spark, and what its units give Prometheus of the host."""

from collections.abc import Mapping, Sequence

from deploys.facts.host_fact import HostFact
from deploys.plan.node_exporter import ExporterState, exporter_script, parse_exporter


class Exporter(HostFact[ExporterState]):
    """The node exporter and our units beside it, in one command.

    Args:
        root: the folder of everything on the Spark.
        files: the files that configure each unit.
    """

    def command(self, root: str, files: Mapping[str, Sequence[str]]) -> str:
        return exporter_script(root, files)

    def parse(self, output: list[str]) -> ExporterState:
        return parse_exporter(output)
