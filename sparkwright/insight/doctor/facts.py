"""The facts that the doctor reads: the checkup of a Spark, and all its sockets."""

import time

from sparkwright.common.facts import HostFact
from sparkwright.insight.doctor.checkup import Checkup, checkup_script, parse_checkup
from sparkwright.insight.doctor.listeners import Listening, listeners_script, parse_listeners


class HostCheckup(HostFact[Checkup]):
    """Everything that the doctor judges, read in one command, which takes a second."""

    command = staticmethod(checkup_script)

    def parse(self, output: list[str]) -> Checkup:
        return parse_checkup(output, time.time())


class Listeners(HostFact[Listening]):
    """All sockets that others can send to, and whose they are, in one command."""

    command = staticmethod(listeners_script)
    parse = staticmethod(parse_listeners)
