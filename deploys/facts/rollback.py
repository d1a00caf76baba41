"""The releases that have served on a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.rollback import History, history_script, parse_history


class Served(HostFact[History]):
    """The releases that have served, and those that could."""

    def command(self, root: str) -> str:
        return history_script(root)

    def parse(self, output: list[str]) -> History:
        return parse_history(output)
