"""The parts of a Spark that are ours."""

from deploys.facts.host_fact import HostFact
from deploys.plan.footprint import Footprint
from deploys.plan.footprint_survey import footprint_script, parse_footprint


class OurFootprint(HostFact[Footprint]):
    """All that we put on a Spark and that is still there, read in one command.

    Args:
        root: the folder of everything on the Spark.
    """

    def command(self, root: str) -> str:
        return footprint_script(root)

    def parse(self, output: list[str]) -> Footprint:
        return parse_footprint(output)
