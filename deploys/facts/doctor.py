"""What a Spark shows of what ails it."""

import time
from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.checkup import Checkup, checkup_script, parse_checkup


class HostCheckup(FactBase[Checkup]):
    """Everything that the doctor judges, read in one command, which takes a second.

    Args:
        root: the folder of everything on the Spark.
    """

    def command(self, root: str) -> str:
        return checkup_script(root)

    def process(self, output: Iterable[str]) -> Checkup:
        try:
            return parse_checkup(output, time.time())
        except ValueError as error:
            raise FactProcessError(str(error)) from error
