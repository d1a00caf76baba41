"""What a Spark tells Prometheus of its host."""

from collections.abc import Iterable, Mapping, Sequence

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.node_exporter import ExporterState, exporter_script, parse_exporter


class Exporter(FactBase[ExporterState]):
    """The node exporter and our units beside it, in one command.

    Args:
        root: the folder of everything on the Spark.
        files: the files that configure each unit.
    """

    def command(self, root: str, files: Mapping[str, Sequence[str]]) -> str:
        return exporter_script(root, files)

    def process(self, output: Iterable[str]) -> ExporterState:
        try:
            return parse_exporter(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
