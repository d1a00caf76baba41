"""A rollout: the replicas of a run switch wave by wave to what they should serve."""

import sys

from pyinfra import state
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from sparkwright.engine.deploy import settings
from sparkwright.rollout.operations import waves
from sparkwright.run.options import check_force
from sparkwright.run.target import bad_input, seats, target_of


@deploy("Rollout")
def apply() -> None:
    """Switch, hold, and take back what does not hold; an idle Spark stays as it is.

    Raises:
        PyinfraError: what the command line asks cannot be; no host has been changed.
    """
    _check_run()
    own, *others = seats()
    if others:
        raise PyinfraError(
            f"rollout: {own.spark} serves {own.replica} and {others[0].replica}; expected one of "
            f"them, as a Spark switches one at a time: --limit {own.replica}"
        )
    chosen = (each.chosen_seats[0] for each in map(target_of, state.active_hosts))
    replicas = {each.replica for each in chosen if each.replica}
    with bad_input():
        check_force(own.options.force, replicas)
    served = own.release
    if served is None:
        return
    waves(
        name="Waves",
        release=served,
        settings=settings(served, own),
        asked=own.options,
        peer=own.peer,
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
