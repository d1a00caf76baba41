"""Why does it not start? Looks at a Spark, and changes nothing."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.doctor import doctor
from deploys.plan.release import engine_url
from deploys.steps.context import fabric_plan, hardware, peer


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark."""
    data = host.data
    doctor(
        name="What ails it",
        root=data.root,
        port=data.port,
        url=engine_url(data.bind, data.port) if data.port else "",
        recipe=data.recipe,
        hardware=hardware(),
        plan=fabric_plan(),
        peer=peer(),
    )
