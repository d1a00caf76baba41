"""Why does it not start? Looks at a Spark, and changes nothing."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.doctor import doctor
from deploys.steps.context import fabric_plan, hardware, peer


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark."""
    data = host.data
    doctor(
        name="What ails it",
        root=data.root,
        recipe=data.recipe,
        hardware=hardware(),
        plan=fabric_plan(),
        peer=peer(),
    )
