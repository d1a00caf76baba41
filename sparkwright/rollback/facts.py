"""The releases that have served on a Spark."""

from sparkwright.common.facts import HostFact
from sparkwright.rollback.rollback import History, history_script, parse_history


class ReleaseHistory(HostFact[History]):
    """The releases that have served, those that are installed, and switches under way."""

    momentary = True

    command = staticmethod(history_script)
    parse = staticmethod(parse_history)
