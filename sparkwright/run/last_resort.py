"""The hook of last resort: no command ends in a traceback, neither ours nor one of pyinfra.

What is printed and written in its place: `sparkwright.common.last_resort`.
"""

import logging
import sys
from typing import Any

import click

from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import explain, guarded
from sparkwright.common.terminal import styled_lines

__all__ = ["explain", "guarded", "keep_tracebacks_off_screen"]


def keep_tracebacks_off_screen() -> None:
    """Have pyinfra and gevent print no traceback; further calls change nothing.

    To be called within a run of pyinfra. pyinfra prints the traceback of each error that it does
    not expect, and asks for a report to its own project; gevent prints that of a greenlet.
    """
    # They patch the standard library.
    import gevent
    from pyinfra_cli.exceptions import (
        UnexpectedExternalError,
        UnexpectedInternalError,
        WrappedError,
    )

    internal: Any = UnexpectedInternalError
    if internal.show is _show_unexpected:
        return
    external: Any = UnexpectedExternalError
    wrapped: Any = WrappedError
    internal.show = external.show = _show_unexpected
    wrapped.show = _show_expected
    # paramiko logs the traceback of each error that it raises, too.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    greenlets = _Greenlets()
    gevent.get_hub().print_exception = greenlets.note
    context = click.get_current_context(silent=True)
    if context:
        context.call_on_close(greenlets.explain)


def _show_unexpected(raised: Any, file: Any = None) -> None:
    error = raised.exception
    # A deploy that another one includes wraps it once more.
    while isinstance(error, type(raised)):
        error = error.exception
    if isinstance(error, PlanError):
        _say(str(error))
    elif isinstance(error, EOFError):
        # input() and getpass() have nobody to ask.
        _say("found no terminal to ask on; expected one, or -y for a run that asks nothing")
    else:
        click.echo(err=True)
        explain(error)


def _show_expected(raised: Any, file: Any = None) -> None:
    """Print an error that pyinfra expects, without the file and the line that raised it."""
    text = str(raised)
    _say("no Spark is left in this run" if text == "No hosts remaining!" else text)


def _say(text: str) -> None:
    stopped = click.style("Stopped", "red", bold=True)
    click.echo(f"--> {stopped}: {styled_lines(text)}", err=True)


class _Greenlets:
    """The errors of greenlets; pyinfra raises most of them again where it waits for one."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def note(self, _context: object, _kind: object, error: BaseException, _trace: object) -> None:
        """Keep an error; in the place of gevent's `print_exception`."""
        self._errors.append(error)

    def explain(self) -> None:
        """Explain those that nobody raised again, at the end of the run."""
        raised = getattr(sys.exc_info()[1], "exception", None)
        for error in self._errors:
            if error is not raised:
                explain(error)
