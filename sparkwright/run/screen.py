"""The output of a run, without control characters that a host may print."""

import logging
from typing import Any

import click
from pyinfra import logger
from pyinfra.api.output import set_echo

from sparkwright.common.terminal import styled_lines


def keep_screen_plain() -> None:
    """Have pyinfra print nothing but plain text and its own styles.

    pyinfra prints the output of commands unchanged: of failed ones, and of all with -v. To be
    called while the inventory is loaded, before any host prints anything.
    """
    if not any(isinstance(each, _Plain) for each in logger.filters):
        logger.addFilter(_Plain())
    set_echo(_echo)


class _Plain(logging.Filter):
    """Makes each message plain, before it reaches any handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        # pyinfra warns of known_hosts, which the first login makes.
        if any(isinstance(each, FileNotFoundError) for each in record.args or ()):
            return False
        if isinstance(record.msg, str):
            record.msg, record.args = styled_lines(record.getMessage()), ()
        return True


def _echo(message: Any = None, **options: Any) -> None:
    click.echo(styled_lines(message) if isinstance(message, str) else message, **options)
