"""A rollback: the previous release serves again."""

from pyinfra.api import deploy

from sparkwright.engine.deploy import programs, settings
from sparkwright.engine.operations.release import programs_and_release
from sparkwright.rollback.operations import rollback
from sparkwright.run.target import target


@deploy("Rollback")
def apply() -> None:
    """Serve the release before the present one; an idle Spark stays idle."""
    own = target()
    if not own.recipe_name:
        return
    programs_and_release(name="Programs of the switch", root=own.root, entries=programs(own.root))
    rollback(
        name="Serve the release before",
        root=own.root,
        recipe=own.recipe_name,
        settings=settings(None),
        peer=own.peer,
    )
