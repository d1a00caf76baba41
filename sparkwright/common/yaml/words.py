"""The faults of a YAML file, in plain words, with their lines."""

from __future__ import annotations

import re

import yaml

# PyYAML's words on what it cannot read, what to say instead, and what is expected.
_WORDS = (
    (r"found character '\\t'", "a tab", "spaces"),
    (r"found character '%' that", "a value that begins with %", "the value in quotes"),
    (r"found character '(.)' that", "a value that begins with {0}", "the value in quotes"),
    (
        r"mapping values are not allowed",
        "a ': ' where no key can be",
        "one key on each line, lines below one key equally far to the right, and text with ': ' "
        "in quotes",
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
    (r"expected a single document", "a second document (---)", "one"),
    (r"for the tag '(.{1,60})'", "the tag {0}", "the value alone, in quotes if it begins with !"),
    (r"unhashable key", "a list or a mapping as a key", "a name"),
    (r"expected '<document start>'", "text that is no mapping", "KEY: VALUE on each line"),
)
_OPENED = "while parsing a flow|while scanning a quoted|while scanning a simple key"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_TAG = "tag:yaml.org,2002:"
# Numbers to a person, but text to YAML.
_ALMOST = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?[eE][0-9]+|0[0-9]+)")


def explained(error: Exception, text: str) -> tuple[int, str]:
    """Return the line of an error of PyYAML, and ``found X; expected Y``."""
    if isinstance(error, yaml.MarkedYAMLError):
        what = " ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        if re.match(_OPENED, what):
            # Where the end is missing, the file's end would be named.
            mark = error.context_mark or mark
        line = mark.line + 1 if mark else 1
        if error.note and error.note.startswith("expected"):
            return line, f"found {what}; {error.note}"
        for pattern, found, expected in _WORDS:
            if match := re.search(pattern, what):
                named = found.replace("{0}", match[1]) if match.groups() else found
                return line, f"found {named}; expected {expected}"
        return line, f"found what is no YAML ({what}); expected KEY: VALUE"
    if isinstance(error, yaml.reader.ReaderError):
        line = text[: error.position].count("\n") + 1
        return line, f"found the control character {_code(error)}; expected text"
    return 1, f"found what is no YAML ({error}); expected KEY: VALUE"


def _code(error: yaml.reader.ReaderError) -> str:
    character = error.character
    return f"#x{character if isinstance(character, int) else ord(character):02x}"


def conflict(text: str) -> int | None:
    """Return the line of the first conflict mark of git in a text; None if it has none."""
    if match := re.search(r"^(<{7}|>{7}) ", text, re.MULTILINE):
        return text[: match.start()].count("\n") + 1
    return None


def misread_key(key: yaml.ScalarNode, value: object) -> str | None:
    """Return the problem of a key that YAML does not read as it is written; None for others."""
    kind = key.tag.removeprefix(_TAG)
    if isinstance(value, str) or (kind == "int" and _INTEGER.fullmatch(key.value)):
        return None
    words = {"bool": str(value).lower(), "null": "null", "timestamp": "a date"}
    read = words.get(kind, f"the number {value}")
    expected = f'expected it in quotes: "{key.value}"'
    return f"found the key {key.value}, which YAML reads as {read}; {expected}"


def misread(node: yaml.Node, value: object) -> str | None:
    """Return the problem of a number that YAML reads otherwise than people; None for any other."""
    kind = node.tag.removeprefix(_TAG)
    if not isinstance(node, yaml.ScalarNode) or node.style or isinstance(value, str):
        return None
    odd = kind == "int" and not _INTEGER.fullmatch(node.value)
    odd = odd or (kind == "float" and bool({*":_"} & {*node.value}))
    if not odd:
        return None
    return (
        f"found {node.value}, which YAML reads as {value}; expected a decimal number, or text in "
        "quotes"
    )


def as_written(node: yaml.Node, found: str) -> str:
    """Return what a message says was found at a scalar: as it is written, too, if that differs."""
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return found
    written, kind = node.value, node.tag.removeprefix(_TAG)
    if kind == "str" and found == f'"{written}"' and _ALMOST.fullmatch(written):
        return f"{written}, which YAML reads as text"
    if kind == "timestamp" and found.startswith('"'):
        return f"{written}, which YAML reads as a date"
    if kind == "null" and found == "null" and not written:
        return "nothing"
    if kind == "bool" and found in ("true", "false") and written != found:
        return f"{written}, which YAML reads as {found}"
    return found
