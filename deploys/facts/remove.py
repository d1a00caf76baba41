"""The parts of a Spark that are ours."""

from deploys.facts.host_fact import HostFact
from deploys.plan.footprint import Footprint
from deploys.plan.footprint_survey import footprint_script, parse_footprint


class OurFootprint(HostFact[Footprint]):
    """All that we put on a Spark and that is still there, read in one command."""

    command = staticmethod(footprint_script)
    parse = staticmethod(parse_footprint)
