"""The deploy of the certificates by which the two Sparks of a pair authenticate each other."""

from pyinfra.api import deploy

from sparkwright.link.operations import identity, pinned
from sparkwright.run.target import target


@deploy("Link")
def apply() -> None:
    """Make a key on each Spark of a pair, and give its certificate to the other."""
    own = target()
    if other := own.peer:
        identity(name="Key of this Spark", root=own.root, spark=own.spark)
        pinned(name="Certificate of the other Spark", root=own.root, peer=other)
