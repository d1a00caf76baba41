"""YAML 1.2, read strictly: every key once, no aliases, no tags, bounded in size and depth.

Recipes and files on a Spark are untrusted: with aliases, a few hundred bytes expand to gigabytes.
PyYAML itself reads YAML 1.1, in which `on` is true and 20:22 is 1222: words and keys are ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Never

import yaml

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text
from sparkwright.common.schema import shown

# The lock is the largest: 100 bytes for each file of a checkpoint, 10 KB for the largest one.
MOST_BYTES = 2**20
# A recipe's deepest value, in hf-overrides of by_sparks, is at 8.
DEEPEST = 32
# Digits of a number: Python takes seconds for a million, and refuses to print 4,300.
LONGEST_NUMBER = 100

_TAG = "tag:yaml.org,2002:"
# The words of YAML 1.2's core schema.
_WORDS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_PYTHON: type[Any] = yaml.SafeLoader
# The parser in C is ten times as fast; errors are worded by those of the parser in Python.
_FAST: type[Any] = getattr(yaml, "CSafeLoader", _PYTHON)

# PyYAML's words on what it cannot read, what to say instead, and what is expected.
_FAULTS = (
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


class _Values:
    """The values of nodes, as YAML 1.2 has them.

    Attributes:
        twice: Problems with keys that are there twice, by whether their values are the same.
        lines: By what a problem calls a value, such as ``a.b[1]``: its line.
        empty: The names of values at which nothing stands.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.twice: dict[bool, list[str]] = {True: [], False: []}
        self.lines: dict[str, int] = {}
        self.empty: set[str] = set()

    def of(self, node: yaml.Node | None, name: str = "") -> Any:
        """Return the value of a node; None without one."""
        if node is None:
            return None
        self.lines.setdefault(name, _line(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.of(item, f"{name}[{place}]") for place, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, name)
        assert isinstance(node, yaml.ScalarNode)
        if not (node.value or node.style):
            self.empty.add(name)
        return node.value if node.style else self._plain(node)

    def _mapping(self, node: yaml.MappingNode, within: str) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        names: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.refuse(key, "a list or a mapping as a key", "a name")
            read, name = self.of(key), key.value
            if type(read) not in (str, int) or str(read) != name:
                kind = f"the number {read}" if type(read) in (int, float) else shown(read)
                expected = f'it in quotes: "{name}"'
                self.refuse(key, f"the key {name}, which YAML reads as {kind}", expected)
            where = f"{within}.{name}".removeprefix(".")
            self.lines.setdefault(where, _line(key))
            found = self.of(value, where)
            if name in names:
                problem = f"{self.source}:{_line(key)}: {name}: found twice; expected once"
                self.twice[repr(names[name]) == repr(found)].append(problem)
            values[read] = names[name] = found
        return values

    def _plain(self, node: yaml.ScalarNode) -> Any:
        """Return the value of a word without quotes."""
        text = node.value
        kind = next((name for name, word in _WORDS.items() if re.fullmatch(word, text)), "")
        if kind in ("int", "float") and len(text) > LONGEST_NUMBER:
            self.refuse(node, f"a number of {len(text)} characters", f"at most {LONGEST_NUMBER}")
        if kind == "int":
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if kind == "float":
            number = float(re.sub(r"\.(?=[in])", "", text.lower()))
            if math.isinf(number) and text[-1].isdecimal():
                self.refuse(node, text, "a smaller number, or text in quotes")
            return number
        return {"null": None, "bool": text.startswith(("t", "T"))}.get(kind, text)

    def refuse(self, at: Any, found: str, expected: str) -> Never:
        """Raise the problem of an event or a node."""
        raise PlanError(f"{self.source}:{_line(at)}: found {found}; expected {expected}")


def _line(at: Any) -> int:
    return at.start_mark.line + 1 if at.start_mark else 1


def _composed(text: str, values: _Values) -> yaml.Node | None:
    """Return the nodes of a text of one document, in bounds, with neither aliases nor tags."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise PlanError(
            f"{values.source}: found more than {MOST_BYTES:,} bytes; expected at most that"
        )
    for loader in (_FAST, _PYTHON):
        try:
            _check(yaml.parse(text, Loader=loader), values)
            return yaml.compose(text, Loader=loader)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line, sentence = _explained(error, text)
    raise PlanError(f"{values.source}:{line}: {sentence}")


def _explained(error: Exception, text: str) -> tuple[int, str]:
    """Return the line of an error of PyYAML, and ``found X; expected Y``."""
    if isinstance(error, yaml.MarkedYAMLError):
        what = " ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        if re.match(_OPENED, what):
            # Where the end is missing, the file's end would be named.
            mark = error.context_mark or mark
        line = mark.line + 1 if mark else 1
        for pattern, found, expected in _FAULTS:
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


def _check(events: Iterator[yaml.Event], values: _Values) -> None:
    depth = documents = 0
    for event in events:
        if anchor := getattr(event, "anchor", None):
            found = "the alias *" if isinstance(event, yaml.AliasEvent) else "the anchor &"
            expected = "the value itself: aliases are not supported"
            values.refuse(event, f"{found}{anchor[:60]}", expected)
        if tag := getattr(event, "tag", None):
            expected = "the value alone, in quotes if it begins with !"
            values.refuse(event, f"the tag {tag.replace(_TAG, '!!')[:60]}", expected)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            values.refuse(event, "a second document (---)", "one")
        if depth >= DEEPEST and isinstance(event, yaml.NodeEvent):
            values.refuse(event, "a value inside of others", f"at most {DEEPEST} levels")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)


def load(path: Path, remarks: list[str] | None = None) -> dict[str, Any]:
    """Read a YAML file that holds one mapping; an empty file gives an empty one.

    Args:
        remarks: Takes what is said of keys that are there twice with one value; without it, they
            are problems.

    Raises:
        PlanError: It is missing, unreadable, too large, no mapping of YAML, or has a key twice.
    """
    text = read_text(path, "a YAML file", MOST_BYTES)
    if text is None:
        raise PlanError(f"{path}: found no such file; expected a YAML file")
    if path.suffix == ".py":
        raise PlanError(f"{path}: found a Python file; expected a YAML file, as sparks.yaml is")
    data = parse(text, str(path), remarks)
    if data is None:
        return {}
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "text without a key"
        raise PlanError(f"{path}: found {kind}; expected a mapping (key: value)")
    return data


def parse(text: str, source: str, remarks: list[str] | None = None) -> Any:
    """Return the Python values of a text of YAML; arguments and errors are those of `load`."""
    values = _Values(source)
    data = values.of(_composed(text, values))
    problems = values.twice[False]
    (problems if remarks is None else remarks).extend(values.twice[True])
    if problems:
        raise PlanError(*problems)
    return data


@contextmanager
def lines_of(path: Path) -> Iterator[None]:
    """Have each problem with a value of a file name its line: ``FILE:LINE: KEY: found X``.

    The file is read again for it, only when there is one.

    Raises:
        PlanError: The problems that were raised.
    """
    try:
        yield
    except PlanError as error:
        start, values = f"{path}: ", _Values(str(path))
        if any(each.startswith(start) for each in error.problems):
            # A file that is refused whole has no lines.
            with suppress(PlanError):
                text = read_text(path, "a YAML file", MOST_BYTES)
                values.of(_composed(text or "", values))
        raise PlanError(*(_placed(each, start, values) for each in error.problems)) from None


def _placed(problem: str, start: str, values: _Values) -> str:
    """Put the line of the value that a problem names into it."""
    text = problem.removeprefix(start)
    ends = (".", ":", "[")
    known = [name for name in values.lines if text.startswith(tuple(name + end for end in ends))]
    if text == problem or not known:
        return problem
    # Names may have dots: the longest counts.
    name = max(known, key=len)
    if name in values.empty:
        text = text.replace(": found null;", ": found nothing;")
    return f"{start[:-2]}:{values.lines[name]}: {text}"


class _AlikeDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


# Text in quotes wherever 1.1 or 1.2 would read something else; some readers of 1.1 know `y`.
_AlikeDumper.add_implicit_resolver(
    "!", re.compile(rf"(?:{'|'.join(_WORDS.values())}|[yYnN])\Z"), None
)


def dump(data: Any, **options: Any) -> str:
    """Return data as YAML that readers of 1.1 and of 1.2 read alike, without aliases."""
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1000, **options}
    text: str = yaml.dump(data, Dumper=_AlikeDumper, **style)
    return text
