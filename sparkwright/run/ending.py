"""The end of a run: what it still has to say, and what Ctrl-C leaves."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

import click
import gevent
from pyinfra import state
from pyinfra.api.state import StateStage

from sparkwright.common.command_line import typed_line
from sparkwright.common.last_resort import INTERRUPTED, end_soon

_contexts: list[click.Context] = []


def watch_end() -> None:
    """Prepare `at_end`, and have Ctrl-C end this run with an explanation and exit status 130.

    To be called as early as pyinfra lets us, by config.py: the deploys of a run are in greenlets of
    their own, which have no context of click's.
    """
    if context := click.get_current_context(silent=True):
        _contexts[:] = [context]
        signal.signal(signal.SIGINT, _interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def at_end(say: Callable[[], None]) -> None:
    """Have a function called at the end of this run, unless an error or Ctrl-C ends it.

    A run that prints pyinfra's JSON has no last lines: they would stand behind it.

    Args:
        say: Prints the last lines; pyinfra has closed its connections by then.
    """

    def unless_failed() -> None:
        if isinstance(sys.exc_info()[1], SystemExit) and not is_interrupted():
            say()

    for context in _contexts:
        if "--json" not in sys.argv:
            context.call_on_close(unless_failed)


def is_interrupted() -> bool:
    """Tell, while the run closes, whether Ctrl-C ends it."""
    return getattr(sys.exc_info()[1], "code", None) == INTERRUPTED


def _interrupted(number: int, frame: FrameType | None) -> None:
    end_soon()
    said = "Interrupted. No Spark was changed."
    if state.current_stage >= StateStage.Execute:
        said = (
            "Interrupted. Nothing is lost: a download, a build or a switch that has begun "
            "continues on its Spark, and engines keep serving. To come back to it: "
            f"{typed_line()}"
        )
    # print() fails within another print().
    os.write(2, f"\n{said}\n".encode())
    if state.initialised:
        # pyinfra disconnects in these pools, which have a place for each Spark: none, at work.
        state.pool.kill(block=False)
        state.fact_pool.kill(block=False)
    # An exception would end whichever greenlet is at work, and a thread of paramiko's drops it.
    gevent.get_hub().handle_system_error(SystemExit, SystemExit(INTERRUPTED))
