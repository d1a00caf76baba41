"""The state of a Spark where no operation looks."""

from collections.abc import Sequence

from deploys.facts.host_fact import HostFact
from deploys.plan.running import Running, parse_running, running_script


class WhatRuns(HostFact[Running]):
    """Containers of engines, their images, what holds the GPU's clock, held packages.

    Args:
        images: the names of the image of the declared release; none on an idle Spark.
    """

    def command(self, images: Sequence[str]) -> str:
        return running_script(images)

    def parse(self, output: list[str]) -> Running:
        return parse_running(output)
