"""The releases that have served on a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.rollback import History, history_script, parse_history


class Served(HostFact[History]):
    """The releases that have served, and those that could."""

    command = staticmethod(history_script)
    parse = staticmethod(parse_history)
