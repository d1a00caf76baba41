"""The deploy of the fabric, the network between the two Sparks of a pair."""

from pyinfra.api import deploy

from sparkwright.network.fabric.operations import fabric, link
from sparkwright.run.target import target


@deploy("Fabric")
def apply() -> None:
    """Set up the link between the two Sparks of a pair, and test it; do nothing on other Sparks.

    A Spark that leaves its pair keeps its settings, for its return.
    """
    own = target()
    plan, other = own.fabric, own.peer
    if plan is None or other is None:
        return
    fabric(name="Fabric", plan=plan, hardware=own.hardware, peer=other, root=own.root)
    link(
        name="Link over the fabric",
        plan=plan,
        hardware=own.hardware,
        peer=other,
        root=own.root,
        measured=own.options.fabric == "verify",
    )
