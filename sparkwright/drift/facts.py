"""The state of a Spark that no operation compares."""

from sparkwright.common.facts import HostFact
from sparkwright.drift.drift import Running, parse_running, running_script


class WhatRuns(HostFact[Running]):
    """The running containers of engines, the GPU's clock, packages that are held back."""

    command = staticmethod(running_script)
    parse = staticmethod(parse_running)
