"""The way back: what served before serves again."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.release import programs_and_release
from deploys.operations.rollback import rollback
from deploys.steps.context import peer
from deploys.steps.engine import programs, settings


@deploy("Rollback")
def apply() -> None:
    """Have the release before the present one serve; an idle Spark stays idle."""
    data = host.data
    if not data.recipe:
        return
    programs_and_release(name="Programs of the switch", root=data.root, entries=programs(data.root))
    rollback(
        name="Serve the release before",
        root=data.root,
        recipe=data.recipe,
        settings=settings(None),
        peer=peer(),
    )
