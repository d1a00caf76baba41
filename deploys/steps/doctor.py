"""The deploy that says why a Spark does not start, and changes nothing."""

from pyinfra.api import deploy

from deploys.operations.doctor import doctor
from deploys.plan.errors import PlanError
from deploys.plan.lock import lock_path, read_lock
from deploys.target import Target, target


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark."""
    own = target()
    doctor(
        name="What ails it",
        root=own.root,
        recipe=own.recipe_name,
        hardware=own.hardware,
        plan=own.fabric,
        peer=own.peer,
        wanted=_wanted(own),
        may_listen=own.may_listen,
    )


def _wanted(own: Target) -> str | None:
    """Return the release that is asked for; a doctor looks nothing up that the lock lacks."""
    try:
        served = own.release_by(read_lock(lock_path(own.fleet)))
        return served.id if served else ""
    except PlanError:
        return None
