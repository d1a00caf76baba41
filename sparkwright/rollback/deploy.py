"""A rollback: the previous release serves again."""

from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from sparkwright.engine.deploy import programs, settings
from sparkwright.engine.operations.release import programs_and_release
from sparkwright.rollback.operations import rollback, way_back
from sparkwright.run.target import seats


@deploy("Rollback")
def apply() -> None:
    """Serve the release before the present one; an idle Spark stays idle.

    Raises:
        PyinfraError: the Spark serves two replicas, and none of them was named.
    """
    own, *others = seats()
    if not own.recipe_name:
        return
    if others:
        names = [str(each.replica) for each in (own, *others)]
        raise PyinfraError(
            f"{own.spark} serves {' and '.join(names)}: found no replica to roll back; expected "
            f"one of them: --limit {names[0]}, or --limit {names[1]}. Nothing was changed."
        )
    way_back(name="A way back", root=own.place, peer=own.peer)
    programs_and_release(name="Programs of the switch", root=own.root, entries=programs(own.root))
    rollback(
        name="Serve the release before",
        root=own.place,
        replica=own.replica or own.spark,
        recipe=own.recipe_name,
        settings=settings(None, own),
        peer=own.peer,
    )
