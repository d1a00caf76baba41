"""A rollout: the replicas of a run switch wave by wave to what they should serve."""

import sys
from pathlib import Path

from pyinfra import host, state
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from deploys.operations.files import managed_files
from deploys.operations.rollout import waves
from deploys.plan.files import ManagedFile
from deploys.plan.rollout_settings import settings as asked_of
from deploys.steps.context import bad_input, peer, release
from deploys.steps.engine import settings

_SPEED = Path(__file__).parents[2] / "files" / "rollout" / "speed.py"


@deploy("Rollout")
def apply() -> None:
    """Switch, hold, and take back what does not hold; an idle Spark stays as it is.

    Raises:
        PyinfraError: what the command line asks cannot be; no host has been changed.
    """
    _check_run()
    replicas = {each.data.replica for each in state.active_hosts if each.data.replica}
    with bad_input():
        asked = asked_of(host.data.dict(), replicas)
    served = release()
    if served is None:
        return
    managed_files(
        name="Program that measures speed",
        entries=[ManagedFile(f"{served.root}/bin/speed.py", _SPEED.read_text())],
    )
    waves(
        name="Waves",
        release=served,
        settings=settings(served),
        asked=asked,
        peer=peer(),
    )


def _check_run() -> None:
    """Refuse a run whose hosts are not all at work at once: they wait for one another."""
    # pyinfra tells neither its state nor its hosts of it.
    if "--serial" in sys.argv:
        raise PyinfraError(
            "rollout: found --serial; expected it left out: it is the rollout that has replicas "
            "switch one after the other"
        )
    hosts = len(state.active_hosts)
    if hosts > state.config.PARALLEL:
        raise PyinfraError(
            f"rollout: found --parallel {state.config.PARALLEL}; expected at least {hosts}, the "
            "number of Sparks in this run: while one switches, the others wait"
        )
