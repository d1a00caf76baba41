"""The output of a run: no word of a host moves the cursor, retitles the window or hides text."""

import logging
from typing import Any

import click
from pyinfra import logger
from pyinfra.api.output import set_echo

from sparkwright.common.terminal import styled_lines


def keep_screen_plain() -> None:
    """Have pyinfra print nothing but text and its own styles.

    pyinfra prints what commands say as it is: where one fails, and all of it with -v. To be called
    while the inventory is loaded, before any host is asked anything.
    """
    if not any(isinstance(each, _Plain) for each in logger.filters):
        logger.addFilter(_Plain())
    set_echo(_echo)


class _Plain(logging.Filter):
    """Makes each message plain, before it reaches any handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            record.msg, record.args = styled_lines(record.getMessage()), ()
        return True


def _echo(message: Any = None, **options: Any) -> None:
    click.echo(styled_lines(message) if isinstance(message, str) else message, **options)
