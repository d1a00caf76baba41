"""The listeners of a Spark."""

from deploys.facts.host_fact import HostFact
from deploys.plan.listeners import Listening, listeners_script, parse_listeners


class Listeners(HostFact[Listening]):
    """All sockets that others can send to, and whose they are, in one command."""

    command = staticmethod(listeners_script)
    parse = staticmethod(parse_listeners)
