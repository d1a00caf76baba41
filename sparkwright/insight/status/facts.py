"""The present status of a Spark."""

from sparkwright.common.facts import HostFact
from sparkwright.insight.status.status import Reading, parse_status, status_script


class SparkStatus(HostFact[Reading | None]):
    """Engine, door, GPU, memory and disk in one command; None where there was no answer."""

    command = staticmethod(status_script)
    parse = staticmethod(parse_status)
