"""What the two Sparks of a pair know each other by."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.identity import Identity, identity_script, parse_identity


class LinkIdentity(FactBase[Identity]):
    """A Spark's own key, without telling it, and its certificate."""

    def command(self, root: str) -> str:
        return identity_script(root)

    def process(self, output: Iterable[str]) -> Identity:
        try:
            return parse_identity(output)
        except ValueError as error:
            raise FactProcessError(str(error)) from error
