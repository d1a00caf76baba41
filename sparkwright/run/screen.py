"""The output of a run, without control characters that a host may print, and its question.

The question takes yes and no, and is asked only where a Spark would change. NO_COLOR and TERM=dumb
are heeded, which click and pyinfra do not do.
"""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click
from click import utils
from gevent.socket import wait_read
from pyinfra import logger, state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.output import set_echo

from sparkwright.common.local_file import written
from sparkwright.common.operations import spark_name, would_change
from sparkwright.common.terminal import print_any_letter, styled_lines

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


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
    """Return whether the run may go on; in the place of pyinfra's `_do_confirm`.

    Raises:
        PyinfraError: The plan has shown that the run would fail.
        SystemExit: The answer is no.
    """
    if failing := sorted(map(spark_name, state.failed_hosts)):
        raise PyinfraError(
            f"the run would fail on {' and '.join(failing)}: see above. Nothing was changed on any "
            f"Spark{_left()}"
        )
    if not would_change():
        return True
    if not _is_yes():
        click.echo(f"Nothing was changed on any Spark{_left()}", err=True)
        sys.exit(1)
    return True


def _is_yes() -> bool:
    """Ask; return the answer, which is no where it is empty.

    Raises:
        EOFError: There is nobody to ask.
    """
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
