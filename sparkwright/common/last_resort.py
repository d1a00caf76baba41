"""The end of a command by an error that nothing else explains: three lines, and a file.

The traceback is in the file, for a report of the fault. It has no values of variables, as these may
hold keys; what looks like a key in its text is left out.
"""

from __future__ import annotations

import atexit
import errno
import os
import platform
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from sparkwright.common.command_line import DEPLOYS, next_line, verb_of
from sparkwright.common.errors import PlanError
from sparkwright.common.terminal import plain, print_any_letter

# The exit status after Ctrl-C, and the seconds in which a command closes what is open.
INTERRUPTED, _GRACE = 130, 2
# Characters of an error's own text: some hold whole pages.
_MESSAGE = 300
# Errors about a full disk, beside those that name a file.
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Tokens of the Hub, API keys, and the headers that carry them.
_KEYS = re.compile(r"\b(hf_|sk-)[\w-]{8,}|\b(Bearer|Basic) +[\w.~+/=-]{8,}")
# Secrets that this process has read: keys and passwords of an owner's own making have any form.
_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Leave a secret out of whatever an error shows or writes from now on."""
    if secret:
        _hidden.add(secret)


def guarded(main: Callable[[], int | None]) -> int:
    """Run a program's main function without any traceback; return its exit status.

    It is 1 after an error, 130 after Ctrl-C.
    """
    print_any_letter()
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        try:
            status = main() or 0
        except SystemExit as ended:
            if isinstance(ended.code, str):
                raise PlanError(ended.code) from None
            status = ended.code or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        explain(error)
        return 1
    finally:
        signal.signal(signal.SIGINT, before)
    return status


def _interrupt(number: int, frame: FrameType | None) -> None:
    end_soon()
    raise KeyboardInterrupt


# At its very end Python drops the handlers of signals, and an alarm would kill the process.
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def end_soon() -> None:
    """Have this process, which closes what is open, end in `_GRACE` seconds or at a next Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    signal.setitimer(signal.ITIMER_REAL, _GRACE)


def explain(error: BaseException) -> None:
    """Print to stderr which error ended the command; a file gets the details for a report.

    A closed pipe is no error, as the reader has all that it wants. A file that cannot be read or
    written, and a Python file of the site's own with a slip, are named and need no report.
    """
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return
    if line := _cause_here(error):
        print(plain(line), file=sys.stderr)
        return
    text = plain(_without_keys(" ".join(str(error).split())), _MESSAGE)
    print(f"`{plain(command())}` failed by a fault of the program:", file=sys.stderr)
    print(f"{type(error).__name__}: {text}".removesuffix(": "), file=sys.stderr)
    print(_record(error), file=sys.stderr)


def _cause_here(error: BaseException) -> str:
    """Return the line about an error of this machine, or of a file of the site; "" for others."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "found no current folder; expected one: cd to your site"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: found no Python ({error.msg})"
    if isinstance(error, OSError) and (error.filename or error.errno in _FULL) and error.strerror:
        _drop_output()
        what = error.filename or "standard output"
        return f"{what}: cannot be read or written: {error.strerror}"
    return ""


def command() -> str:
    """Return the command that runs, without options, which may hold a secret."""
    program, *words = sys.argv or [""]
    path = Path(program)
    files = [word for word in words if word.endswith(".py") and not word.startswith("-")]
    if (verb := verb_of(Path(files[-1]).stem if files else "")) in DEPLOYS:
        return next_line(verb)
    name = path.parent.name if path.name == "__main__.py" else path.name
    first = [word for word in words[:1] if not word.startswith("-")]
    return " ".join([name, *(files or first)])


def _drop_output() -> None:
    """Have what is left of standard output go nowhere: Python would print another error at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _without_keys(text: str) -> str:
    for secret in sorted(_hidden, key=len, reverse=True):
        text = text.replace(secret, "[a key]")
    return _KEYS.sub("[a key]", text)


def _record(error: BaseException) -> str:
    """Write the file of an error; return the line that names it, or says why there is none."""
    shown = "".join(traceback.format_exception(error))
    text = _without_keys(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n{command()}\n"
        f"Python {platform.python_version()}, {platform.platform()}\n\n{shown}"
    )
    try:
        handle, path = tempfile.mkstemp(".txt", "sparkwright-error-")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as reason:
        return f"The details could not be written to a file ({plain(str(reason))})."
    report = next_line("doctor", "--data report=-")
    return f"The details are in {path}. Report it with this file: {report}"
