"""What of a Spark is ours."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.footprint import Footprint
from deploys.plan.footprint_survey import footprint_script, parse_footprint


class OurFootprint(FactBase[Footprint]):
    """All that we put on a Spark and that is still there, read in one command.

    Args:
        root: the folder of everything on the Spark.
    """

    def command(self, root: str) -> str:
        return footprint_script(root)

    def process(self, output: Iterable[str]) -> Footprint:
        try:
            return parse_footprint(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
