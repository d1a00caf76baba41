"""Takes text apart that was written for a shell, as a shell would, without running any of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkwright.common.errors import PlanError

# What ends a command, or sends its output elsewhere, when no quotes are around it.
_OPERATORS = "();<>|&\n"
_BLANK = " \t\r"
# What a backslash in double quotes takes the meaning from; before others it stands for itself.
_ESCAPED = '$`"\\'


@dataclass(frozen=True)
class Word:
    """A word of a command.

    Attributes:
        text: Without its quotes.
        line: Number of the line that it begins on, from 0.
        expands: A shell would replace a part of it: ``$NAME``, ``$(…)``, backquotes.
        operator: It is no word, but ends a command or sends its output elsewhere.
    """

    text: str
    line: int = 0
    expands: bool = False
    operator: bool = False


class ShellError(PlanError):
    """Problems of a command: in ``found`` the line of each, from 0, and its sentence."""

    def __init__(self, *found: tuple[int, str]) -> None:
        self.found = found
        super().__init__(*(sentence for _, sentence in found))


def words(text: str) -> Iterator[Word]:
    """Yield the words and operators of a text; comments are left out.

    Raises:
        ShellError: A quote is not closed.
    """
    at, line = 0, 0
    while at < len(text):
        character = text[at]
        if character in _BLANK:
            at += 1
        elif length := _continued(text, at):
            at, line = at + length, line + 1
        elif character == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif character in _OPERATORS:
            start = at
            while (
                at < len(text)
                and text[at] in _OPERATORS
                and (text[at] == "\n") == (character == "\n")
            ):
                at += 1
            yield Word(text[start:at], line, operator=True)
            line += text.count("\n", start, at)
        else:
            word, at, lines = _word(text, at, line)
            yield word
            line += lines


def _continued(text: str, at: int) -> int:
    """Return how many characters a backslash before a line's end takes; 0: there is none.

    Blanks behind the backslash are a slip that a shell minds; who wrote them meant none.
    """
    if text[at] != "\\":
        return 0
    end = at + 1
    while end < len(text) and text[end] in _BLANK:
        end += 1
    if end == len(text):
        return end - at
    return end + 1 - at if text[end] == "\n" else 0


def _word(text: str, at: int, line: int) -> tuple[Word, int, int]:
    """Read one word; return it, where it ends, and how many line ends are in it."""
    start, read, expands, quote = at, "", False, ""
    while at < len(text):
        character = text[at]
        if quote == "'":
            if character == "'":
                quote = ""
            else:
                read += character
        elif text.startswith("$(", at):
            end = _closed(text, at + 1)
            read, expands = read + text[at:end], True
            at = end - 1
        elif character == "\\":
            following = text[at + 1 : at + 2]
            if length := _continued(text, at):
                at += length
                continue
            if quote and following not in _ESCAPED:
                read += character
            read += following
            at += 1
        elif quote:
            if character == '"':
                quote = ""
            else:
                expands = expands or character in "$`"
                read += character
        elif character in _BLANK or character in _OPERATORS:
            break
        elif character in "'\"":
            quote = character
        else:
            expands = expands or character in "$`"
            read += character
        at += 1
    if quote:
        raise ShellError((line, f"found a {quote} that is not closed; expected one at the end"))
    return Word(read, line, expands), at, text.count("\n", start, at)


def _closed(text: str, at: int) -> int:
    """Return the place behind the bracket that closes the one at a place; the end if none does."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def commands(text: str) -> Iterator[list[Word]]:
    """Yield the words of each command of a text; an operator begins one, unless it is a line's end.

    Raises:
        ShellError: As `words`.
    """
    command: list[Word] = []
    for word in words(text):
        if word.operator:
            if command:
                yield command
            command = [] if "\n" in word.text else [word]
        else:
            command.append(word)
    if command:
        yield command
