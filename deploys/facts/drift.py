"""What runs on a Spark, where no operation looks."""

from collections.abc import Iterable, Sequence

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.running import Running, parse_running, running_script


class WhatRuns(FactBase[Running]):
    """Containers of engines, their images, what holds the GPU's clock, held packages.

    Args:
        images: the names of the image of the declared release; none on an idle Spark.
    """

    def command(self, images: Sequence[str]) -> str:
        return running_script(images)

    def process(self, output: Iterable[str]) -> Running:
        try:
            return parse_running(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
