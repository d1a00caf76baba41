"""The state of a Spark where no operation looks."""

from sparkwright.common.facts import HostFact
from sparkwright.drift.containers import Running, parse_running, running_script


class WhatRuns(HostFact[Running]):
    """Containers of engines, their images, what holds the GPU's clock, held packages."""

    command = staticmethod(running_script)
    parse = staticmethod(parse_running)
