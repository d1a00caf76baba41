"""The present status of a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.status import Reading, parse_status, status_script


class SparkStatus(HostFact[Reading | None]):
    """Engine, door, GPU, memory and disk in one command; None where there was no answer.

    Args:
        root: the folder of everything on the Spark.
    """

    @staticmethod
    def default() -> None:
        return None

    def command(self, root: str) -> str:
        return status_script(root)

    def parse(self, output: list[str]) -> Reading:
        return parse_status(output)
