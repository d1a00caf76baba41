"""What is on a Spark of releases, images and weights."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.belongings import Belongings, belongings_script, parse_belongings


class OnSpark(FactBase[Belongings]):
    """Everything that a cleaning judges, in one command."""

    def command(self, root: str) -> str:
        return belongings_script(root)

    def process(self, output: Iterable[str]) -> Belongings:
        try:
            return parse_belongings(output)
        except (KeyError, ValueError, TypeError) as error:
            raise FactProcessError(f"what is there is unreadable: {error!r}") from error
