"""The fabric: the two Sparks of a pair on a network of their own."""

from pyinfra.api import deploy

from sparkwright.fabric.operations import fabric, link
from sparkwright.run.target import target


@deploy("Fabric")
def apply() -> None:
    """Set up the link between the two Sparks of a pair and prove it; leave a lone Spark as it is.

    A Spark that leaves its pair keeps its settings: they are of use when it comes back.
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
