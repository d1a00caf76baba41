"""The command that a person has typed, for messages that name the next one."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

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


def check_is_run() -> None:
    """Refuse a deploy that Python itself runs: it has no host.

    Raises:
        SystemExit: With the command that runs it.
    """
    # It patches the standard library.
    from pyinfra.context import ctx_state

    if not ctx_state.isset():
        name = Path(sys.argv[0]).name
        raise SystemExit(
            f"found {name} run by Python; expected: pyinfra inventory.py deploys/{name}"
        )
