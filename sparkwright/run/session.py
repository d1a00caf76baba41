"""The session of every deploy: checks of the run, and reports of what fails."""

import sys
from pathlib import Path

from pyinfra import host, state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_state

from sparkwright.common.command_line import next_line, verb_of
from sparkwright.common.operations import is_dry_run, spark_name
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


def start_session(*, lease: bool = False, whole: bool = True) -> None:
    """Check the run and the current host, before any change, and have failures reported.

    A run that changes Sparks holds the lease of each (`hold_lease`). One that only looks need not
    have `whole` groups.
    """
    check_is_run()
    report_failures()
    if is_dry_run():
        # With -y, pyinfra would not plan, and have nothing to show.
        state.check_for_changes = True
    if whole:
        _check_group()
    # From here on, a lost Spark is noticed.
    connection_of(host)
    check_sudo(host)
    if lease:
        hold_lease()


def _check_group() -> None:
    """Refuse a run in which Sparks of a group would wait for others of it for ever."""
    own = target()
    if not own.is_group:
        return
    group = f"replica {own.replica}"
    expected = " and ".join(own.ranks)
    here = [spark_name(each) for each in own.together if each in state.active_hosts]
    if len(here) < len(own.ranks):
        raise PyinfraError(
            f"{group}: only {' and '.join(here)} {'is' if len(here) == 1 else 'are'} in this run, "
            f"but {expected} serve one model together: --limit {own.replica} takes all of them, "
            f"--exclude {own.replica} none"
        )
    # Of each group all but one may be at work, and wait for the last, which has yet to start.
    targets = [target_of(each) for each in state.active_hosts]
    groups = {each.replica: len(each.ranks) for each in targets if each.is_group}
    waiting = sum(groups.values()) - len(groups)
    if waiting >= state.config.PARALLEL:
        raise PyinfraError(
            f"{group}: found --parallel {state.config.PARALLEL}; expected at least "
            f"{waiting + 1}, as {expected} do each step at the same time"
        )
