"""The deploy that diagnoses a Spark, and changes nothing."""

from pyinfra.api import deploy

from sparkwright.common.errors import PlanError
from sparkwright.doctor.operations import doctor
from sparkwright.release.lock import lock_path, read_lock
from sparkwright.run.survey import surveyed
from sparkwright.run.target import Target, target


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark."""
    own = target()
    with surveyed():
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
