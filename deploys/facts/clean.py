"""What is on a Spark of releases, images and weights."""

from deploys.facts.host_fact import HostFact
from deploys.plan.belongings import Belongings, belongings_script, parse_belongings


class OnSpark(HostFact[Belongings]):
    """Everything that a cleaning judges, in one command."""

    def command(self, root: str) -> str:
        return belongings_script(root)

    def parse(self, output: list[str]) -> Belongings:
        return parse_belongings(output)
