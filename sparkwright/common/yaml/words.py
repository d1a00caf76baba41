"""The faults of a YAML file, in plain words, with their lines."""

from __future__ import annotations

import re

import yaml

# PyYAML's words on what it cannot read, what to say instead, and what is expected.
_WORDS = (
    (r"found character '\\t'", "a tab", "spaces"),
    (r"found character '(.)' that", "a value that begins with {0}", "the value in quotes"),
    (
        "mapping values are not",
        "a ': ' where no key can be",
        "one key on each line, those below one key equally far to the right; and ': ' in quotes",
    ),
    (r"while parsing a flow mapping", "a { without its }, or a comma missing", "{key: value, …}"),
    (r"while parsing a flow sequence", "a [ without its ], or a comma missing", "[value, …]"),
    (r"while scanning a quoted scalar", "a quote that is not closed", "one at the end, too"),
    (
        r"expected <block end>|while parsing a block",
        "a line that begins farther left or right than those it belongs to",
        "them equally far to the right",
    ),
    (r"could not find expected ':'", "a line without a colon", "KEY: VALUE"),
    (r"expected '<document start>'", "text that is no mapping", "KEY: VALUE on each line"),
)
_OPENED = "while parsing a flow|while scanning a quoted|while scanning a simple key"


def explained(error: Exception, text: str) -> tuple[int, str]:
    """Return the line of an error of PyYAML, and ``found X; expected Y``."""
    if isinstance(error, yaml.MarkedYAMLError):
        what = " ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        if re.match(_OPENED, what):
            # Where the end is missing, the file's end would be named.
            mark = error.context_mark or mark
        line = mark.line + 1 if mark else 1
        for pattern, found, expected in _WORDS:
            if match := re.search(pattern, what):
                named = found.replace("{0}", match[match.lastindex or 0])
                return line, f"found {named}; expected {expected}"
    elif isinstance(error, yaml.reader.ReaderError):
        # Its position is one of bytes, or of characters.
        line = text.partition(chr(error.character))[0].count("\n") + 1
        return line, f"found the control character #x{error.character:02x}; expected text"
    else:
        line, what = 1, str(error)
    return line, f"found what is no YAML ({what}); expected KEY: VALUE"
