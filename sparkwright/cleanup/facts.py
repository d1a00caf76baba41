"""The releases, images and weights on a Spark."""

from sparkwright.cleanup.belongings import Belongings, belongings_script, parse_belongings
from sparkwright.cleanup.footprint import Footprint
from sparkwright.cleanup.footprint_survey import footprint_script, parse_footprint
from sparkwright.common.facts import HostFact


class OnSpark(HostFact[Belongings]):
    """Everything that a cleaning judges, in one command."""

    command = staticmethod(belongings_script)
    parse = staticmethod(parse_belongings)


class OurFootprint(HostFact[Footprint]):
    """All that we put on a Spark and that is still there, read in one command."""

    command = staticmethod(footprint_script)
    parse = staticmethod(parse_footprint)
