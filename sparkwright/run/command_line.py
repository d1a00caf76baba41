"""The command that a person has typed, for messages that name the next one."""

from __future__ import annotations

import os
import shlex
import sys

# Set by `sparkwright`, which starts pyinfra: the program with its own options, and its whole line.
PROGRAM_VARIABLE, LINE_VARIABLE = "SPARKWRIGHT_PROGRAM", "SPARKWRIGHT_LINE"


def typed_line() -> str:
    """Return the command line of this run as it was typed."""
    return os.environ.get(LINE_VARIABLE) or f"pyinfra {shlex.join(sys.argv[1:])}"


def next_line(verb: str, otherwise: str) -> str:
    """Return a further command, in the form in which this run was started.

    Args:
        verb: What follows `sparkwright`.
        otherwise: The same without it, such as ``pyinfra inventory.py deploys/status.py``.
    """
    program = os.environ.get(PROGRAM_VARIABLE)
    return f"{program} {verb}" if program else otherwise
