"""The present status of a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.status import Reading, parse_status, status_script


class SparkStatus(HostFact[Reading | None]):
    """Engine, door, GPU, memory and disk in one command; None where there was no answer."""

    command = staticmethod(status_script)
    parse = staticmethod(parse_status)
