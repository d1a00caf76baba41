"""The two Sparks of a pair know each other by certificates that each makes itself."""

from pyinfra.api import deploy

from sparkwright.link.operations import identity, pinned
from sparkwright.run.target import target


@deploy("Link")
def apply() -> None:
    """Make each Spark's key and hand its certificate to the other; nothing for a Spark alone."""
    own = target()
    if other := own.peer:
        identity(name="Key of this Spark", root=own.root, spark=own.spark)
        pinned(name="Certificate of the other Spark", root=own.root, peer=other)
