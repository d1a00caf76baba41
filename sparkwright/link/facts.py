"""The certificates by which the two Sparks of a pair know each other."""

from sparkwright.common.facts import HostFact
from sparkwright.link.identity import Identity, identity_script, parse_identity


class LinkIdentity(HostFact[Identity]):
    """A Spark's own key, without telling it, and its certificate."""

    command = staticmethod(identity_script)
    parse = staticmethod(parse_identity)
