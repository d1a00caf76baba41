"""The deploy that says why a Spark does not start, and changes nothing."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.doctor import doctor
from deploys.plan.errors import PlanError
from deploys.plan.lock import lock_path, read_lock
from deploys.plan.served import release_of
from deploys.steps.context import fabric_plan, hardware, may_listen, peer


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
        wanted=_wanted(),
        may_listen=may_listen(),
    )


def _wanted() -> str | None:
    """Return the release that is asked for; a doctor looks nothing up that the lock lacks."""
    data = host.data
    if not data.recipe:
        return ""
    try:
        return release_of(data.dict(), read_lock(lock_path(Path(data.fleet)))).id
    except PlanError:
        return None
