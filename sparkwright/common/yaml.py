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

from sparkwright.common.errors import PlanError, refuse
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
    ("mapping values are not", "a ': ' where no key can be", "a key on each line; ': ' in quotes"),
    (r"while parsing a flow mapping", "a { without its }, or a comma missing", "{key: value, …}"),
    (r"while parsing a flow sequence", "a [ without its ], or a comma missing", "[value, …]"),
    (r"while scanning a quoted scalar", "a quote that is not closed", "one at the end, too"),
    (
        r"expected <block end>|while parsing a block",
        *("a line that begins farther left or right than those it belongs to", "them alike"),
    ),
    (r"could not find expected ':'", "a line without a colon", "KEY: VALUE"),
    (r"expected '<document start>'", "text that is no mapping", "KEY: VALUE on each line"),
)
_OPENED = "while parsing a flow|while scanning a quoted|while scanning a simple key"


class YamlText:
    """A text, read by the events of PyYAML's parser, in which no alias is followed yet.

    Attributes:
        value: What is written there, as YAML 1.2 has it; None where nothing is.
        twice: Problems with keys that are there twice, by whether their values are the same.
        lines: By what a problem calls a value, such as ``a.b[1]``: its line.
        words: The words of values and keys, each with its name, its event and what it stands for.
    """

    def __init__(self, text: str, source: str, loader: type[Any]) -> None:
        self._source = source
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
        self.value: Any = None
        self.twice: dict[bool, list[str]] = {True: [], False: []}
        self.lines: dict[str, int] = {}
        self.words: list[tuple[str, yaml.ScalarEvent, Any]] = []
        documents = 0
        for event in self._events:
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                self._refuse(event, "a second document (---)", "one")
            if isinstance(event, yaml.NodeEvent):
                self.value = self._value(event, "", 0)

    def _value(self, event: yaml.Event, name: str, depth: int) -> Any:
        """Return the value that begins with an event, inside of so many others."""
        self._check(event, depth)
        self.lines.setdefault(name, _line(event))
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                items.append(self._value(item, f"{name}[{len(items)}]", depth + 1))
            return items
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(name, depth + 1)
        assert isinstance(event, yaml.ScalarEvent)
        value = self._scalar(event)
        self.words.append((name, event, value))
        return value

    def _check(self, event: Any, depth: int) -> None:
        if event.anchor:
            found = "the alias *" if isinstance(event, yaml.AliasEvent) else "the anchor &"
            expected = "the value itself: aliases are not supported"
            self._refuse(event, f"{found}{event.anchor[:60]}", expected)
        if event.tag:
            expected = "the value alone, in quotes if it begins with !"
            self._refuse(event, f"the tag {event.tag.replace(_TAG, '!!')[:60]}", expected)
        if depth >= DEEPEST:
            self._refuse(event, "a value inside of others", f"at most {DEEPEST} levels")

    def _mapping(self, within: str, depth: int) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        names: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            self._check(key, depth)
            if not isinstance(key, yaml.ScalarEvent):
                self._refuse(key, "a list or a mapping as a key", "a name")
            read, name = self._scalar(key), key.value
            if type(read) not in (str, int) or str(read) != name:
                kind = f"the number {read}" if type(read) in (int, float) else shown(read)
                expected = f'it in quotes: "{name}"'
                self._refuse(key, f"the key {name}, which YAML reads as {kind}", expected)
            where = f"{within}.{name}".removeprefix(".")
            self.lines.setdefault(where, _line(key))
            self.words.append((where, key, name))
            found = self._value(next(self._events), where, depth)
            if name in names:
                problem = f"{self._source}:{_line(key)}: {name}: found twice; expected once"
                self.twice[repr(names[name]) == repr(found)].append(problem)
            values[read] = names[name] = found
        return values

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        """Return the value of a word; in quotes it is text."""
        text: str = event.value
        words = () if event.style else _WORDS.items()
        kind = next((name for name, word in words if re.fullmatch(word, text)), "")
        if kind in ("int", "float") and len(text) > LONGEST_NUMBER:
            self._refuse(event, f"a number of {len(text)} characters", f"at most {LONGEST_NUMBER}")
        if kind == "int":
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if kind == "float":
            number = float(re.sub(r"\.(?=[in])", "", text.lower()))
            if math.isinf(number) and text[-1].isdecimal():
                self._refuse(event, text, "a smaller number, or text in quotes")
            return number
        return {"null": None, "bool": text.startswith(("t", "T"))}.get(kind, text)

    def _refuse(self, event: yaml.Event, found: str, expected: str) -> Never:
        raise PlanError(f"{self._source}:{_line(event)}: found {found}; expected {expected}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _read(text: str, source: str) -> YamlText:
    """Read a text of one document, in bounds, with neither aliases nor tags."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise PlanError(f"{source}: found more than {MOST_BYTES:,} bytes; expected at most that")
    for loader in (_FAST, _PYTHON):
        try:
            return YamlText(text, source, loader)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line, sentence = _explained(error, text)
    raise PlanError(f"{source}:{line}: {sentence}")


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


def read(path: Path) -> YamlText:
    """Read a YAML file that holds one mapping; an empty file gives an empty one.

    Raises:
        PlanError: It is missing, unreadable, too large, or no mapping of YAML.
    """
    text = read_text(path, "a YAML file", MOST_BYTES)
    if text is None:
        raise PlanError(f"{path}: found no such file; expected a YAML file")
    if path.suffix == ".py":
        raise PlanError(f"{path}: found a Python file; expected a YAML file, as sparks.yaml is")
    found = _read(text, str(path))
    found.value = {} if found.value is None else found.value
    if not isinstance(found.value, dict):
        kind = "a list" if isinstance(found.value, list) else "text without a key"
        raise PlanError(f"{path}: found {kind}; expected a mapping (key: value)")
    return found


def load(path: Path) -> dict[str, Any]:
    """Return the mapping of a YAML file; beside the errors of `read`, a key twice is one."""
    return dict(_once(read(path)))


def parse(text: str, source: str) -> Any:
    """Return the Python values of a text of YAML; errors are those of `load`."""
    return _once(_read(text, source))


def _once(found: YamlText) -> Any:
    refuse([*found.twice[False], *found.twice[True]])
    return found.value


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
        found = None
        if any(each.startswith(f"{path}: ") for each in error.problems):
            # A file that is refused whole has no lines.
            with suppress(PlanError):
                found = read(path)
        if found is None:
            raise
        raise PlanError(*(_placed(each, str(path), found) for each in error.problems)) from None


def _placed(problem: str, source: str, found: YamlText) -> str:
    """Put the line of the value that a problem names into it."""
    text = problem.removeprefix(f"{source}: ")
    ends = (".", ":", "[")
    known = [name for name in found.lines if text.startswith(tuple(name + end for end in ends))]
    if text == problem or not known:
        return problem
    # Names may have dots: the longest counts.
    name = max(known, key=len)
    if any(each == name and not (word.value or word.style) for each, word, _ in found.words):
        text = text.replace(": found null;", ": found nothing;")
    return f"{source}:{found.lines[name]}: {text}"


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
