"""What a Spark does right now."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.status import Reading, parse_status, status_script


class SparkStatus(FactBase[Reading | None]):
    """Engine, door, GPU, memory and disk in one command; None where there was no answer.

    Args:
        root: the folder of everything on the Spark.
    """

    @staticmethod
    def default() -> None:
        return None

    def command(self, root: str) -> str:
        return status_script(root)

    def process(self, output: Iterable[str]) -> Reading:
        try:
            return parse_status(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
