"""The deploy of the fabric, the network between the two Sparks of a pair."""

from collections.abc import Iterator
from typing import Any

from pyinfra.api import deploy

from sparkwright.common.part import Ask
from sparkwright.network.fabric.operations import ask_fabric, fabric, link
from sparkwright.run.target import Target, target


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark of a pair."""
    if own.fabric and own.peer:
        yield ask_fabric(own.hardware, own.root)


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
