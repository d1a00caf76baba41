"""The fabric: the two Sparks of a pair on a network of their own."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.fabric import fabric
from deploys.operations.fabric_link import link
from deploys.plan.data_options import chosen
from deploys.steps.context import bad_input, fabric_plan, hardware, peer


@deploy("Fabric")
def apply() -> None:
    """Set up the link between the two Sparks of a pair and prove it; leave a lone Spark as it is.

    A Spark that leaves its pair keeps its settings: they are of use when it comes back.
    """
    plan, other = fabric_plan(), peer()
    if plan is None or other is None:
        return
    with bad_input():
        measured = chosen("fabric", host.data.get("fabric"))
    root = host.data.root
    fabric(name="Fabric", plan=plan, hardware=hardware(), peer=other, root=root)
    link(
        name="Link over the fabric",
        plan=plan,
        hardware=hardware(),
        peer=other,
        root=root,
        measured=measured,
    )
