"""The messages of an operation to the person who runs it."""

import sys

from pyinfra import host, logger, state
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.state import StateStage

from deploys.operations.differences import Refusal, is_looking
from deploys.plan.terminal import plain, plain_lines


def failing(message: str, *, mended: bool = False) -> StringCommand:
    """Return a command that prints `message` as its error and exits with status 1.

    Raising inside an operation would end the run for every host. Where a run is planned, the
    message is shown in the plan; a dry run then has exit status 1, as the real one would.

    Args:
        message: what is in the way, and what helps.
        mended: an earlier operation of the same run will have removed the cause: a plan is silent.
    """
    said = plain_lines(message)
    if planning() and not (mended or is_looking()):
        _refuse(said)
    return Refusal(said, "printf '%s\\n'", QuoteString(said), ">&2; exit 1")


def _refuse(message: str) -> None:
    assert host.current_op_hash
    names = state.get_op_meta(host.current_op_hash).names
    for line in (f"{', '.join(sorted(names))}: a run would fail here:", *message.splitlines()):
        host.log_styled(line, fg="red", log_func=logger.error)
    if is_dry_run():
        # Not by fail_hosts, which would end the plan for all.
        state.failed_hosts.add(state.inventory.get_host(host.name))


def notice(message: str, colour: str = "yellow") -> None:
    """Show a line once: when the plan is made, or in the execution where nobody made one (`-y`).

    Who looks for differences sees none of them.
    """
    if is_looking():
        return
    if planning() or not state.check_for_changes:
        host.log_styled(plain(message), fg=colour, log_func=logger.warning)


def planning() -> bool:
    """Tell whether pyinfra only asks what an operation would do."""
    return bool(state.current_stage == StateStage.Prepare)


def is_dry_run() -> bool:
    """Tell whether the run only plans, and leaves no file behind, not even on this machine."""
    # pyinfra tells its deploys nothing of this. Its JSON without -y is a plan as well.
    return "--dry" in sys.argv or ("--json" in sys.argv and not {"-y", "--yes"} & {*sys.argv})
