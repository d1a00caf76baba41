"""Starts a program in the place of this one; Ctrl-C ends both from their first moment on.

Python also runs this file as a program, which needs nothing else of this package: so the import of
pyinfra or pytest can be interrupted without a traceback.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any

_CTRL_C = {signal.SIGINT}


def leave_on_interrupt() -> None:
    """Have Ctrl-C end this process at that moment, which is for a time with nothing open."""
    signal.signal(signal.SIGINT, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)


def leave_pyinfra_on_interrupt(event: object) -> None:
    """Do the same in a run that a person has started by `pyinfra`.

    Called by gevent wherever it patches the standard library, which is pyinfra's first step.
    """
    if os.path.basename(sys.argv[0]) == "pyinfra":  # noqa: PTH119
        leave_on_interrupt()


def start(program: str, words: Sequence[str]) -> None:
    """Replace this process by pyinfra or pytest."""
    # It waits until the new Python, which begins with a handler that raises, has ours.
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)
    os.execv(sys.executable, [sys.executable, "-P", __file__, program, *words])


def _leave(number: int, frame: FrameType | None) -> None:
    # print() fails within another print().
    os.write(2, b"\ninterrupted\n")
    os._exit(130)


def _run(program: str, words: Sequence[str]) -> Any:
    leave_on_interrupt()
    # As its own script has it.
    sys.argv = [os.path.join(os.path.dirname(sys.executable), program), *words]  # noqa: PTH118, PTH120
    if program == "pytest":
        return import_module("pytest").main()
    main = import_module("pyinfra_cli.main").main
    # pyinfra's own handler ends a run with status 0: Ctrl-C waits for ours, of config.py.
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)
    return main()


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1], sys.argv[2:]))
