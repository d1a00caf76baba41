"""YAML 1.2, read strictly: every key once, no aliases, no tags, bounded in size and depth.

Recipes and files on a Spark are untrusted: with aliases, a few hundred bytes expand to gigabytes.
PyYAML parses; the values are ours, as it reads YAML 1.1, in which `on` is true and 20:22 is 1222.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Never

import yaml

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text
from sparkwright.common.schema import shown
from sparkwright.common.yaml.words import explained

# The lock is the largest: 100 bytes for each file of a checkpoint, 10 KB for the largest one.
MOST_BYTES = 2**20
# A recipe's deepest value, in hf-overrides of by_sparks, is at 8.
DEEPEST = 32
# Digits of a number: Python takes seconds for a million, and refuses to print 4,300.
LONGEST_NUMBER = 100

# YAML 1.2's core schema.
_PLAIN = re.compile(
    r"(?P<null>~|null|Null|NULL|)"
    r"|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<endless>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_KINDS: dict[str, Callable[[str], object]] = {
    "null": lambda _: None,
    "bool": lambda text: text[0] in "tT",
    "int": lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    "float": float,
    "endless": lambda text: float(text.replace(".", "")),
}
_TAG = "tag:yaml.org,2002:"
# Words to which YAML 1.1 gives another meaning.
_OLDER = re.compile(
    r"(?i:yes|no|on|off)|"
    r"[-+]?(0[0-9_]+|0[bx].*|[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?|[0-9][0-9.]*_[0-9_.]*)"
)
# The parser in C is ten times as fast; messages are worded by the errors of the one in Python.
_PARSERS = (*filter(None, [getattr(yaml, "CSafeLoader", None)]), yaml.SafeLoader)

# For each key, and `[0]` for an item: its line, and the lines within it; None where nothing is.
Lines = dict[str, tuple[int, "Lines | None"]]
Origin = Literal["ours", "others", "any"]


class _Reader:
    """The values of a text.

    Attributes:
        origin: Of a file of ours, keys are text or decimal numbers; in one of others, words that a
            program for YAML 1.1 reads otherwise are refused; of any, all is taken.
        twice: Problems of keys that are there twice, by whether their values are the same.
    """

    def __init__(self, source: str, events: Iterator[yaml.Event], origin: Origin) -> None:
        self.source, self.origin = source, origin
        self.twice: dict[bool, list[str]] = {True: [], False: []}
        self._events = events

    def read(self) -> tuple[Any, Lines | None]:
        """Return the values of the only document, and their lines."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None, {}
        found = self._value(next(self._events), 1)
        next(self._events)
        if not isinstance(second := next(self._events), yaml.StreamEndEvent):
            self._refuse(second, "a second document (---)", "one")
        return found

    def _value(self, event: yaml.Event, depth: int) -> tuple[Any, Lines | None]:
        if anchor := getattr(event, "anchor", None):
            found = "the alias *" if isinstance(event, yaml.AliasEvent) else "the anchor &"
            expected = "the value itself: aliases are not supported"
            self._refuse(event, f"{found}{anchor[:60]}", expected)
        if tag := getattr(event, "tag", None):
            expected = "the value alone, in quotes if it begins with !"
            self._refuse(event, f"the tag {tag.replace(_TAG, '!!')[:60]}", expected)
        if depth > DEEPEST:
            self._refuse(event, "a value inside of others", f"at most {DEEPEST} levels")
        if isinstance(event, yaml.ScalarEvent):
            if not event.implicit[0]:
                return event.value, {}
            return self._plain(event), {} if event.value else None
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth + 1)
        items: list[Any] = []
        lines: Lines = {}
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            item, within = self._value(event, depth + 1)
            lines[f"[{len(items)}]"] = _line(event), within
            items.append(item)
        return items, lines

    def _mapping(self, depth: int) -> tuple[dict[Any, Any], Lines]:
        values: dict[Any, Any] = {}
        lines: Lines = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, _ = self._value(event, depth)
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse(event, "a list or a mapping as a key", "a name")
            name = event.value
            if type(key) not in (str, int) or str(key) != name:
                if self.origin == "ours":
                    read = f"the number {key}" if type(key) in (int, float) else shown(key)
                    expected = f'it in quotes: "{name}"'
                    self._refuse(event, f"the key {name}, which YAML reads as {read}", expected)
                key = name
            line = _line(event)
            value, within = self._value(next(self._events), depth)
            if name in lines:
                problem = f"{self.source}:{line}: {name}: found twice; expected once"
                self.twice[repr(values.get(key)) == repr(value)].append(problem)
            values[key], lines[name] = value, (line, within)
        return values, lines

    def _plain(self, event: yaml.ScalarEvent) -> Any:
        """Return the value of a word without quotes."""
        text = event.value
        match = _PLAIN.fullmatch(text)
        kind = match.lastgroup if match else None
        if kind in ("int", "float") and len(text) > LONGEST_NUMBER:
            self._refuse(event, f"a number of {len(text)} characters", f"at most {LONGEST_NUMBER}")
        if self.origin == "others" and _OLDER.fullmatch(text):
            found = f"{text}, which programs read differently"
            self._refuse(event, found, "true, false, a decimal number, or text in quotes")
        if kind == "float" and math.isinf(float(text)):
            self._refuse(event, text, "a smaller number, or text in quotes")
        return _KINDS[kind](text) if kind else text

    def _refuse(self, event: yaml.Event, found: str, expected: str) -> Never:
        raise PlanError(f"{self.source}:{_line(event)}: found {found}; expected {expected}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def load(path: Path, remarks: list[str] | None = None, origin: Origin = "ours") -> dict[str, Any]:
    """Read a YAML file that holds one mapping; an empty file gives an empty one.

    Args:
        remarks: Given for a file of others; takes what is said of keys that are there twice with
            one value.

    Raises:
        PlanError: It is missing, unreadable, too large, no mapping of YAML, or has a key twice.
    """
    text = read_text(path, "a YAML file", MOST_BYTES)
    if text is None:
        raise PlanError(f"{path}: found no such file; expected a YAML file")
    if path.suffix == ".py":
        raise PlanError(f"{path}: found a Python file; expected a YAML file, as sparks.yaml is")
    data = parse(text, str(path), origin if remarks is None else "others", remarks)
    if data is None:
        return {}
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "text without a key"
        raise PlanError(f"{path}: found {kind}; expected a mapping (key: value)")
    return data


def parse(text: str, source: str, origin: Origin = "ours", remarks: list[str] | None = None) -> Any:
    """Return the Python values of a text of YAML; arguments and errors are those of `load`."""
    reader, data, _ = _read(text, source, origin)
    problems = reader.twice[False]
    (problems if remarks is None else remarks).extend(reader.twice[True])
    if problems and origin != "any":
        raise PlanError(*problems)
    return data


def _read(text: str, source: str, origin: Origin = "ours") -> tuple[_Reader, Any, Lines | None]:
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise PlanError(f"{source}: found more than {MOST_BYTES:,} bytes; expected at most that")
    for parser in _PARSERS:
        try:
            reader = _Reader(source, yaml.parse(text, Loader=parser), origin)
            return (reader, *reader.read())
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            line, sentence = explained(error, text)
    raise PlanError(f"{source}:{line}: {sentence}")


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
        lines: Lines | None = {}
        if any(each.startswith(f"{path}: ") for each in error.problems):
            # One that is refused whole has no lines.
            with suppress(PlanError):
                lines = _read(read_text(path, "", MOST_BYTES) or "", str(path))[2]
        raise PlanError(*(_placed(each, f"{path}: ", lines) for each in error.problems)) from None


def _placed(problem: str, start: str, lines: Lines | None) -> str:
    if not problem.startswith(start):
        return problem
    text = rest = problem.removeprefix(start)
    line = None
    # Names may have dots: the longest key counts.
    while names := [n for n in lines or () if rest.startswith((f"{n}.", f"{n}:", f"{n}["))]:
        name = max(names, key=len)
        line, lines = (lines or {})[name]
        rest = rest.removeprefix(name).removeprefix(".")
    if line is None:
        return problem
    if lines is None:
        text = text.replace(": found null;", ": found nothing;")
    return f"{start[:-2]}:{line}: {text}"


class _AlikeDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


# Text in quotes wherever 1.1 or 1.2 would read something else; some readers of 1.1 know `y`.
_AlikeDumper.add_implicit_resolver("!", re.compile(rf"(?:{_PLAIN.pattern}|[yYnN])\Z"), None)


def dump(data: Any, **options: Any) -> str:
    """Return data as YAML that readers of 1.1 and of 1.2 read alike, without aliases."""
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 1000, **options}
    text: str = yaml.dump(data, Dumper=_AlikeDumper, **style)
    return text
