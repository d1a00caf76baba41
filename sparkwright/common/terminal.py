"""Text of others, made fit for a terminal: no control character, no escape sequence, no override.

An escape sequence may clear the screen, retitle the window or fill the clipboard; a mark that turns
the direction of writing makes a command read as another one.
"""

import re

# Characters of one line: a line of a log is rarely as long, and a screen holds about as much.
LINE = 2000
# How click styles a line: reset, bold, and a colour. Nothing of these hides or moves text.
_STYLE = re.compile(r"(\x1b\[(?:[01]|3[0-7]|9[0-7])m)")


def plain(text: str, most: int = LINE) -> str:
    """Return text as one line that shows every character that it holds, or a mark in its place.

    Args:
        text: whatever a Spark, a hub or a file says.
        most: characters that are kept; an ellipsis tells that there were more.
    """
    cut = text[: most + 1]
    shown = "".join(each if each.isprintable() else _instead(each) for each in cut)
    return shown if len(cut) <= most else f"{shown[:most]}…"


def plain_lines(text: str, most: int = LINE) -> str:
    """Return `plain` of each line.

    Args:
        text: as for `plain`.
        most: characters that are kept of each line.
    """
    return "\n".join(plain(line, most) for line in text.split("\n"))


def styled_lines(text: str) -> str:
    """Return `plain_lines` of what has styles of click in it, which stay; without a bound.

    Args:
        text: what is about to be printed.
    """
    parts = _STYLE.split(text)
    parts[::2] = (plain_lines(part, len(part)) for part in parts[::2])
    return "".join(parts)


def _instead(character: str) -> str:
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"
