"""Ctrl-C ends a program at once, with exit status 130 and without a traceback.

As a program of its own, which needs nothing else of this package, this module starts another one,
such as pyinfra: a Ctrl-C while that one is imported ends it as well.
"""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any

STATUS = 130
# Seconds for closing what is open.
_GRACE = 2
_CTRL_C = {signal.SIGINT}


def leave_on_interrupt() -> None:
    """Have Ctrl-C end this process at that moment, which is for a time with nothing open."""
    signal.signal(signal.SIGINT, _say_and_leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)


def end_soon() -> None:
    """Have this process end within `_GRACE` seconds, or at the next Ctrl-C, whatever it waits for.

    To be called once it has been interrupted, before it closes what is open.
    """
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, _leave)
    signal.setitimer(signal.ITIMER_REAL, _GRACE)


def replace_process(program: str, words: Sequence[str]) -> None:
    """Replace this process by the main function of an installed program.

    Args:
        program: Its name, `pyinfra` or `pytest`.
        words: Its arguments.
    """
    # It waits until the new Python, which begins with a handler that raises, has `_say_and_leave`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)
    os.execv(sys.executable, [sys.executable, "-P", __file__, program, *words])


def _say_and_leave(number: int, frame: FrameType | None) -> None:
    # print() fails within another print().
    os.write(2, b"\ninterrupted\n")
    _leave(number, frame)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(STATUS)


def _start(program: str, words: Sequence[str]) -> Any:
    leave_on_interrupt()
    # The path shows in `ps`, and in what the program prints about itself.
    sys.argv = [os.path.join(os.path.dirname(sys.executable), program), *words]  # noqa: PTH118, PTH120
    if program == "pytest":
        return import_module("pytest").main()
    main = import_module("pyinfra_cli.main").main
    # pyinfra's own handler ends a run with status 0: Ctrl-C waits for ours, of config.py.
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)
    return main()


if __name__ == "__main__":
    sys.exit(_start(sys.argv[1], sys.argv[2:]))
