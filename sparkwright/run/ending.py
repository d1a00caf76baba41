"""What a run says: its plain output, its question, reports, the lines at its end, and its errors.

The question takes yes and no, and is asked only where a Spark would change. NO_COLOR and TERM=dumb
are heeded, which click and pyinfra do not do.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import click
import gevent
from click import utils
from gevent.socket import wait_read
from pyinfra import logger, state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.output import set_echo
from pyinfra.api.state import StateStage

from sparkwright.common.command_line import typed_line
from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import INTERRUPTED, end_soon, explain
from sparkwright.common.local_file import write_file, written
from sparkwright.common.operations import spark_name, would_change
from sparkwright.common.terminal import plain, print_any_letter, styled_lines

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}
_contexts: list[click.Context] = []
# The errors that ended greenlets; pyinfra raises most of them again where it waits for one.
_errors: list[BaseException] = []
# The last lines of the run, by replica or Spark.
_results: dict[str, str] = {}


def watch_end() -> None:
    """Have this run end with a sentence, and no traceback; after Ctrl-C with exit status 130.

    To be called as early as pyinfra lets us, by config.py: the deploys of a run are in greenlets of
    their own, which have no context of click's. Further calls change nothing.

    Raises:
        SystemExit: A `--data` has no value.
    """
    context = click.get_current_context(silent=True)
    if context is None or context in _contexts:
        return
    _contexts[:] = [context]
    for given in context.params.get("data") or ():
        # pyinfra would end in a traceback.
        if not given.partition("=")[1]:
            raise SystemExit(f"--data {plain(given)}: found no value; expected NAME=VALUE")
    signal.signal(signal.SIGINT, _interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # paramiko logs the traceback of each error that it raises; gevent prints that of a greenlet.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    gevent.get_hub().print_exception = _note
    # The first function is called last, before click would print the error.
    context.call_on_close(_explain_error)


def keep_screen_plain(local: str | None = None) -> None:
    """Have pyinfra print nothing but plain text and its own styles, and ask in words.

    pyinfra prints the output of commands unchanged: of failed ones, and of all with -v. To be
    called while the inventory is loaded, before any host prints anything.
    `local` is the Spark that pyinfra calls @local, if there is one.
    """
    if not any(isinstance(each, _Plain) for each in logger.filters):
        logger.addFilter(_Plain(local))
    set_echo(_echo)
    print_any_letter()
    # Outside of pyinfra, this import would patch the standard library.
    from pyinfra_cli import cli

    cli._do_confirm = _agreed
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        # The greenlets of deploys have no context of click's, where this could be said.
        click_utils: Any = utils
        click_utils.resolve_color_default = lambda color=None: False


def at_end(say: Callable[[], None]) -> None:
    """Have a function called at the end of this run, unless an error or Ctrl-C ends it.

    A run that prints pyinfra's JSON has no last lines: they would stand behind it.
    pyinfra has closed its connections by then.
    """

    def unless_failed() -> None:
        if isinstance(sys.exc_info()[1], SystemExit) and not is_interrupted():
            say()

    for context in _contexts:
        if "--json" not in sys.argv:
            context.call_on_close(unless_failed)


def check_alone(what: str) -> None:
    """Refuse a run of other deploys beside this one: pyinfra's do not know of each other."""
    deploys = [word for word in sys.argv if Path(word).match("deploys/*.py")]
    if len(deploys) > 1:
        raise PyinfraError(
            f"found {' '.join(deploys)}; expected {what} alone, as the run ends with it"
        )


def tell_machines(target: str | None, text: str) -> bool:
    """Write JSON to a path, or to "-", standard output; return whether people get a report, too."""
    if target == "-":
        click.echo(text)
    elif target:
        write_file(Path(target), f"{text}\n")
    return target != "-"


def conclude(name: str, result: str) -> None:
    """Have this run, unless it only plans, end with a line about a replica or Spark.

    A later line of the same name replaces this one.
    """
    if state.current_stage != StateStage.Execute:
        return
    if not _results:
        at_end(lambda: click.echo("\n" + "\n".join(map(plain, _results.values()))))
    _results[name] = f"{name}{result}"


def is_interrupted() -> bool:
    """Tell, while the run closes, whether Ctrl-C ends it."""
    return getattr(sys.exc_info()[1], "code", None) == INTERRUPTED


class _Plain(logging.Filter):
    """Makes each message plain, before it reaches any handler."""

    def __init__(self, local: str | None) -> None:
        super().__init__()
        self._local = local or "@local"

    def filter(self, record: logging.LogRecord) -> bool:
        # pyinfra warns of known_hosts, which the first login makes.
        if any(isinstance(each, FileNotFoundError) for each in record.args or ()):
            return False
        if isinstance(record.msg, str):
            text = record.getMessage().replace("@local", self._local)
            record.msg, record.args = styled_lines(text), ()
        return True


def _echo(message: Any = None, **options: Any) -> None:
    click.echo(styled_lines(message) if isinstance(message, str) else message, **options)


def _agreed(_message: str) -> bool:
    """Ask whether the run may go on, in the place of pyinfra's `_do_confirm`."""
    if failing := sorted(map(spark_name, state.failed_hosts)):
        raise PyinfraError(
            f"the run would fail on {' and '.join(failing)}: see above. Nothing was changed on any "
            f"Spark{_left()}"
        )
    if not would_change():
        return True
    if _is_yes():
        return True
    click.echo(f"Nothing was changed on any Spark{_left()}", err=True)
    sys.exit(1)


def _is_yes() -> bool:
    """Return the answer, which is no where it is empty; an EOFError says that nobody is there."""
    click.echo("\nDo this? [y/N]: ", err=True, nl=False)
    # The connections live on meanwhile, and Ctrl-C is heeded: read() may miss it at its beginning.
    wait_read(sys.stdin.fileno())
    while line := sys.stdin.readline():
        if (answer := line.strip().lower()) in _ANSWERS:
            return _ANSWERS[answer]
        click.echo("Do this? y (yes) or n (no): ", err=True, nl=False)
    raise EOFError


def _left() -> str:
    """Return the end of a sentence about what stays on this machine."""
    names = ", ".join(os.path.relpath(path) for path in written if Path(path).exists())
    return f"; on this machine stays what the next run uses: {names}." if names else "."


def _note(_context: object, _kind: object, error: BaseException, _trace: object) -> None:
    # The run reports those that pyinfra expects, of each host that has one.
    if not isinstance(error, PyinfraError):
        _errors.append(error)


def _explain_error() -> None:
    """Print the error that ends the run, and those of greenlets that nobody has raised again."""
    # What the interpreter's end interrupts, such as the closing of a file at a Spark, is no error.
    sys.unraisablehook = lambda _: None
    raised = error = sys.exc_info()[1]
    # pyinfra wraps each error; a deploy that another one includes wraps it once more.
    while isinstance(error, click.ClickException) and hasattr(error, "exception"):
        error = error.exception
    for each in _errors:
        if each is not error:
            explain(each)
    if error is None or error is raised:
        return
    if isinstance(error, EOFError):
        # input() and getpass() have nobody to ask.
        _say("found no terminal to ask on; expected one, or -y for a run that asks nothing")
    elif isinstance(error, PyinfraError | PlanError):
        text = str(error)
        _say("no Spark is left in this run" if text == "No hosts remaining!" else text)
    else:
        click.echo(err=True)
        explain(error)
    # In the place of an error for which pyinfra would print file, line or traceback.
    raise SystemExit(1)


def _say(text: str) -> None:
    stopped = click.style("Stopped", "red", bold=True)
    click.echo(f"--> {stopped}: {styled_lines(text)}", err=True)


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
