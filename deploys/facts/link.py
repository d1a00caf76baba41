"""The certificates by which the two Sparks of a pair know each other."""

from deploys.facts.host_fact import HostFact
from deploys.plan.identity import Identity, identity_script, parse_identity


class LinkIdentity(HostFact[Identity]):
    """A Spark's own key, without telling it, and its certificate."""

    def command(self, root: str) -> str:
        return identity_script(root)

    def parse(self, output: list[str]) -> Identity:
        return parse_identity(output)
