"""The end of a run: what it still has to say, and what Ctrl-C leaves."""

import signal
import sys
from collections.abc import Callable
from types import FrameType

import click

from sparkwright.common.command_line import typed_line

_contexts: list[click.Context] = []


def watch_end() -> None:
    """Prepare `at_end`, and have Ctrl-C end this run with an explanation and exit status 130.

    To be called while the inventory is loaded: the deploys of a run are in greenlets of their own,
    which have no context of click's.
    """
    if context := click.get_current_context(silent=True):
        _contexts.append(context)
        signal.signal(signal.SIGINT, _interrupted)


def at_end(say: Callable[[], None]) -> None:
    """Have a function called at the end of this run, unless an error ends it.

    Args:
        say: Prints the last lines; pyinfra has closed its connections by then.
    """

    def unless_failed() -> None:
        if isinstance(sys.exc_info()[1], SystemExit):
            say()

    for context in _contexts[-1:]:
        context.call_on_close(unless_failed)


def _interrupted(number: int, frame: FrameType | None) -> None:
    click.echo(
        "\nInterrupted. Nothing is lost: a download, a build or a switch that has begun continues "
        f"on its Spark, and engines keep serving. To come back to it: {typed_line()}",
        err=True,
    )
    sys.exit(130)
