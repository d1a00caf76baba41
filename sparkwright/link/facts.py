"""The identities by which the two Sparks of a pair authenticate each other."""

from sparkwright.common.facts import HostFact
from sparkwright.link.identity import Identity, identity_script, parse_identity


class LinkIdentity(HostFact[Identity]):
    """The state of a Spark's key, and its certificate."""

    command = staticmethod(identity_script)
    parse = staticmethod(parse_identity)
