"""The session of every deploy: checks of the run, and reports of what fails."""

import sys
from pathlib import Path

from pyinfra import host, state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_state

from sparkwright.common.command_line import next_line, verb_of
from sparkwright.common.operations import is_dry_run
from sparkwright.run.failures import report_failures
from sparkwright.run.lease import hold_lease
from sparkwright.run.state import check_sudo, connection_of
from sparkwright.run.target import target, target_of


def check_is_run() -> None:
    """Refuse a deploy that Python itself runs: it has no host."""
    if not ctx_state.isset():
        path = Path(sys.argv[0])
        right = next_line(verb_of(path.stem))
        raise SystemExit(f"found {path.name} run by Python; expected: {right}")


def start_session(*, lease: bool = False) -> None:
    """Check the run and the current host, before any change, and have failures reported.

    A run that changes Sparks holds the lease of each (`hold_lease`).
    """
    check_is_run()
    report_failures()
    if is_dry_run():
        # With -y, pyinfra would not plan, and have nothing to show.
        state.check_for_changes = True
    _check_pair()
    # From here on, a lost Spark is noticed.
    connection_of(host)
    check_sudo(host)
    if lease:
        hold_lease()


def _check_pair() -> None:
    """Refuse a run in which one Spark of a pair would wait for the other for ever."""
    own = target()
    if not own.is_pair:
        return
    pair = f"replica {own.replica}"
    expected = " and ".join(own.ranks)
    if len(state.active_hosts.intersection(own.together)) < 2:
        raise PyinfraError(
            f"{pair}: only {own.spark} is in this run, but {expected} serve one model together: "
            f"--limit {own.replica} takes both, --exclude {own.replica} neither"
        )
    # With as many hosts at once as there are pairs, each may wait for one that has yet to start.
    pairs = {each.replica for each in map(target_of, state.active_hosts) if each.is_pair}
    if len(pairs) >= state.config.PARALLEL:
        raise PyinfraError(
            f"{pair}: found --parallel {state.config.PARALLEL}; expected at least "
            f"{len(pairs) + 1}, as {expected} do each step at the same time"
        )
