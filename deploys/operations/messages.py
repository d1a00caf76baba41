"""What an operation says to the person who runs it."""

from pyinfra import host, logger, state
from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.state import StateStage

from deploys.operations.differences import Refusal, is_looking


def failing(message: str) -> StringCommand:
    """Return a command that prints `message` as its error and exits with status 1.

    Raising inside an operation would end the run for every host, and `--dry` would show nothing.
    """
    return Refusal(message, "printf '%s\\n'", QuoteString(message), ">&2; exit 1")


def notice(message: str, colour: str = "yellow") -> None:
    """Show a line once: when the plan is made, or in the execution where nobody made one (`-y`).

    Who looks for differences sees none of them.
    """
    if is_looking():
        return
    if planning() or not state.check_for_changes:
        host.log_styled(message, fg=colour, log_func=logger.warning)


def planning() -> bool:
    """Whether pyinfra only asks what an operation would do."""
    return bool(state.current_stage == StateStage.Prepare)
