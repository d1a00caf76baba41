"""The two Sparks of a pair know each other by certificates that each makes itself."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.link import identity, pinned
from deploys.steps.context import peer


@deploy("Link")
def apply() -> None:
    """Make each Spark's key and hand its certificate to the other; nothing for a Spark alone."""
    if other := peer():
        identity(name="Key of this Spark", root=host.data.root, spark=host.data.spark)
        pinned(name="Certificate of the other Spark", root=host.data.root, peer=other)
