"""What has served on a Spark."""

from collections.abc import Iterable

from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

from deploys.plan.rollback import History, history_script, parse_history


class Served(FactBase[History]):
    """The releases that have served, and those that could."""

    def command(self, root: str) -> str:
        return history_script(root)

    def process(self, output: Iterable[str]) -> History:
        try:
            return parse_history(output)
        except (KeyError, ValueError) as error:
            raise FactProcessError(f"the history is unreadable: {error!r}") from error
