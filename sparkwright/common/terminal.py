"""Makes foreign text safe for a terminal: without control characters and escape sequences.

An escape sequence may clear the screen, retitle the window or fill the clipboard; a mark that
changes the direction of writing makes a command look like another one.
"""

import io
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Characters of one line: lines of logs are rarely longer, and a screen holds about as many.
LINE = 2000
# Seconds after which a program of the owner's that is waited for is named.
_SILENT = 5
# click's styles: reset, bold, and colors. None of them hides or moves text.
_STYLE = re.compile(r"(\x1b\[(?:[01]|3[0-7]|9[0-7])m)")


def plain(text: str, most: int = LINE) -> str:
    """Return the first characters of a text as one line, without any that is not printable."""
    cut = text[: most + 1]
    shown = "".join(
        each if each.isprintable() else " " if each.isspace() else "\N{REPLACEMENT CHARACTER}"
        for each in cut
    )
    return shown if len(cut) <= most else f"{shown[:most]}…"


def plain_lines(text: str, most: int = LINE) -> str:
    """Return text with each line made `plain`; `most` is the number of characters of a line."""
    return "\n".join(plain(line, most) for line in text.split("\n"))


def print_any_letter() -> None:
    """Have letters that the locale's encoding lacks printed as \\xe4, instead of ending the run."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def waiting_for(program: str, most: float) -> Iterator[None]:
    """Name a program that has not ended soon, and the seconds that it may take."""
    line = f"waiting for {plain(program)}, for {most:g} s at the most"
    note = threading.Timer(_SILENT, lambda: print(line, file=sys.stderr, flush=True))
    note.daemon = True
    note.start()
    try:
        yield
    finally:
        note.cancel()


def styled_lines(text: str) -> str:
    """Return `plain_lines` of a text of any length, whose click styles are kept."""
    parts = _STYLE.split(text)
    parts[::2] = (plain_lines(part, len(part)) for part in parts[::2])
    return "".join(parts)
