"""Takes text apart that was written for a shell, as a shell would, without running any of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.errors import PlanError

_TOKEN = re.compile(
    # Blanks behind a backslash are a slip that a shell minds; who wrote them meant none.
    r"(?P<continued>\\[ \t\r]*(?:\n|\Z))|(?P<blank>[ \t\r]+)|(?P<operator>\n+|[();<>|&]+)"
    r"|'(?P<single>[^']*)'|\"(?P<double>[^\"\\]*(?:\\.[^\"\\]*)*)\"|\\(?P<escaped>.)"
    r"|(?P<bare>\$\([^()'\"\\]*\)|\$|[^ \t\r\n'\"\\();<>|&$]+)",
    re.DOTALL,
)
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class Word:
    """A word of a command without its quotes, and the line that it begins on, from 0.

    A shell would replace a part of one that expands: ``$NAME``, ``$(…)``. An operator is no word,
    but ends a command or sends its output elsewhere.
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


def _words(text: str) -> Iterator[Word]:
    """Yield the words and operators of a text; comments are left out."""
    at = line = 0
    begun: list[Word] = []
    while at < len(text):
        comment = None if begun else _COMMENT.match(text, at)
        match = comment or _TOKEN.match(text, at)
        if match is None:
            sentence = f"found a {text[at]} that is not closed; expected one at the end"
            raise ShellError((line, sentence))
        kind, found = (None, "") if comment else (match.lastgroup, match[str(match.lastgroup)])
        if kind in ("blank", "operator") and begun:
            yield _joined(begun)
            begun = []
        if kind == "operator":
            yield Word(found, line, operator=True)
        elif kind == "double":
            plain = re.sub(r'\\([$`"\\]|\n)', lambda each: each[1].strip("\n"), found)
            begun.append(Word(plain, line, bool(re.search(r"[$`]", re.sub(r"\\.", "", found)))))
        elif kind == "bare":
            begun.append(Word(found, line, bool(re.search(r"[$`]", found))))
        elif kind in ("single", "escaped"):
            begun.append(Word(found, line))
        line += match[0].count("\n")
        at = match.end()
    if begun:
        yield _joined(begun)


def _joined(parts: Sequence[Word]) -> Word:
    expands = any(each.expands for each in parts)
    return Word("".join(each.text for each in parts), parts[0].line, expands)


def commands(text: str) -> Iterator[list[Word]]:
    """Yield the words of each command; an operator begins one, unless it is a line's end."""
    command: list[Word] = []
    for word in _words(text):
        if word.operator:
            if command:
                yield command
            command = [] if "\n" in word.text else [word]
        else:
            command.append(word)
    if command:
        yield command
