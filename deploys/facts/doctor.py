"""The symptoms of a Spark, for the doctor."""

import time

from deploys.facts.host_fact import HostFact
from deploys.plan.checkup import Checkup, checkup_script, parse_checkup


class HostCheckup(HostFact[Checkup]):
    """Everything that the doctor judges, read in one command, which takes a second."""

    command = staticmethod(checkup_script)

    def parse(self, output: list[str]) -> Checkup:
        return parse_checkup(output, time.time())
