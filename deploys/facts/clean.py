"""The releases, images and weights on a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.belongings import Belongings, belongings_script, parse_belongings


class OnSpark(HostFact[Belongings]):
    """Everything that a cleaning judges, in one command."""

    command = staticmethod(belongings_script)
    parse = staticmethod(parse_belongings)
