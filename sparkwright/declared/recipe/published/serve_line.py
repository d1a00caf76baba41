"""Reads a `vllm serve` line that was written for a shell, without running any of it.

A text is bounded before it is read, and each pattern looks at each character once or twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.values import COUNTS

# Characters of a command, once it is filled in, and of a variable; options of a line.
MOST_TEXT, MOST_VALUE, _MOST_OPTIONS, _DEEPEST = 2**16, 2**11, 300, 8

# Options that Sparkwright sets by inventory and replica, whatever a line says of them.
OURS = (
    *("host", "port", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
    *("distributed-executor-backend", "allowed-media-domains", "data-parallel-address"),
    *("data-parallel-backend", "data-parallel-rpc-port", "data-parallel-size-local"),
    "data-parallel-start-rank",
)
# vLLM's short options (engine/arg_utils.py of 0.33.0).
_SHORT: dict[str, str] = dict(
    re.findall(
        r"(\S+)=(\S+)",
        "-tp=tensor-parallel-size -pp=pipeline-parallel-size -dp=data-parallel-size -n=nnodes "
        "-dcp=decode-context-parallel-size -pcp=prefill-context-parallel-size -r=node-rank "
        "-ep=enable-expert-parallel -q=quantization -sc=speculative-config -cc=compilation-config "
        "-ac=attention-config -O=optimization-level",
    )
)
_TOKEN = re.compile(
    # Blanks behind a backslash are a slip that a shell minds; who wrote them meant none.
    r"(?P<continued>\\[ \t\r]*(?:\n|\Z))|(?P<blank>[ \t\r]+)|(?P<operator>\n+|[();<>|&]+)"
    r"|'(?P<single>[^']*)'|\"(?P<double>[^\"\\]*(?:\\.[^\"\\]*)*)\"|\\(?P<escaped>.)"
    r"|(?P<bare>\$\([^()'\"\\]*\)|\$|[^ \t\r\n'\"\\();<>|&$]+)",
    re.DOTALL,
)
_COMMENT = re.compile(r"#[^\n]*")
_PLACEHOLDER = re.compile(r"\{(?P<key>[A-Za-z_][\w-]*)\}")
_ESCAPED = re.compile(rf"{_PLACEHOLDER.pattern}|\{{\{{|\}}\}}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
# What says how many GPUs a line is for, of which a Spark has one.
_SIZE = re.compile(
    r"\s(?P<option>--(?:tensor|pipeline|data)[-_]parallel[-_]size|-tp|-pp|-dp|--nnodes|-n)"
    r"[\s=]['\"]?(?P<size>[0-9]{1,4})\b"
)


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


@dataclass(frozen=True)
class ServeLine:
    """The model and options of a `vllm serve` line, and the variables that are set before it.

    ``lines`` are the lines, from 0, of what our keys say: ``args.NAME``, ``env.NAME``, and of the
    model as ``checkpoints``.
    """

    model: str
    options: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace each ``{key}`` by its value; if ``{{`` occurs, it and ``}}`` stand for a brace.

    A value may hold the keys of others, as sparkrun has it.
    """
    pattern = _ESCAPED if "{{" in template else _PLACEHOLDER
    found = [each for each in pattern.finditer(template) if each["key"]]
    # Where each key is first.
    places = {each["key"]: each.start() for each in reversed(found)}
    missing = sorted((at, key) for key, at in places.items() if values.get(key) is None)
    if missing:
        sentence = "found {{{}}}; expected it among `defaults`"
        raise ShellError(*((template.count("\n", 0, at), sentence.format(k)) for at, k in missing))
    whole = {key: filled(str(values[key]), values) for key in places}
    return _replaced(pattern, template, whole, MOST_TEXT)


def filled(text: str, values: Mapping[str, object], most: int = MOST_TEXT) -> str:
    """Replace each ``{key}`` that has a value, and nothing else."""
    known = {key: str(value) for key, value in values.items() if value is not None}
    return _replaced(_PLACEHOLDER, text, known, most)


def _replaced(pattern: re.Pattern[str], text: str, known: Mapping[str, str], most: int) -> str:
    def new(match: re.Match[str]) -> str:
        return known.get(match["key"], match[0]) if match["key"] else match[0][0]

    size = len(text) + sum(len(new(each)) - len(each[0]) for each in pattern.finditer(text))
    if size > most:
        sentence = f"found more than {most:,} characters, its keys filled in; expected fewer"
        raise ShellError((0, sentence))
    return pattern.sub(new, text)


def other_count(text: str) -> tuple[int, str] | None:
    """Return why a line, also one that cannot be read, is for as many Sparks as no replica has."""
    sizes = {match["option"].lstrip("-")[0]: match for match in _SIZE.finditer(text)}
    nodes = [match for kind, match in sizes.items() if kind == "n"]
    for each in (nodes, [match for kind, match in sizes.items() if kind != "n"]):
        count = math.prod(int(match["size"]) for match in each)
        if count not in COUNTS:
            found = f"found {each[-1]['option']} {each[-1]['size']}, {count} in all"
            expected = f"{found}; expected {' or '.join(map(str, COUNTS))} Sparks"
            return text.count("\n", 0, each[-1].start("option")), expected
    return None


def _words(text: str) -> Iterator[Word]:
    """Yield the words and operators of a text; comments are left out."""
    at = line = 0
    begun: list[Word] = []
    # The end of the last line ends its command, even behind a backslash.
    text += "\n\n"
    while at < len(text):
        comment = None if begun else _COMMENT.match(text, at)
        match = comment or _TOKEN.match(text, at)
        if match is None:
            sentence = f"found a {text[at]} that is not closed; expected one at the end"
            raise ShellError((line, sentence))
        kind = match.lastgroup
        found = match[kind] if kind else ""
        if kind in ("blank", "operator"):
            if begun:
                expands = any(each.expands for each in begun)
                yield Word("".join(each.text for each in begun), begun[0].line, expands)
                begun = []
            if kind == "operator":
                yield Word(found, line, operator=True)
        elif kind in ("single", "escaped"):
            begun.append(Word(found, line))
        elif kind in ("double", "bare"):
            expands = re.search(r"[$`]", re.sub(r"\\.", "", found)) is not None
            if kind == "double":
                found = re.sub(r'\\([$`"\\]|\n)', lambda each: each[1].strip("\n"), found)
            begun.append(Word(found, line, expands))
        line += match[0].count("\n")
        at = match.end()


def _commands(text: str) -> Iterator[list[Word]]:
    """Yield the words of each command; an operator begins one, unless it is a line's end."""
    command: list[Word] = []
    for word in _words(text):
        if not word.operator:
            command.append(word)
            continue
        if command:
            yield command
        command = [] if "\n" in word.text else [word]


def parse_line(text: str) -> ServeLine:
    """Take one ``vllm serve`` command apart, as a shell and vLLM would.

    Before it may stand ``export NAME=VALUE``.
    """
    env: dict[str, str] = {}
    lines: dict[str, int] = {}
    serving: list[Word] | None = None
    for command in _commands(text):
        if command[0].operator or serving is not None:
            found = command[0].text if command[0].operator else "a line break without a backslash"
            sentence = f"found {found}; expected one vllm serve line and nothing else"
            raise ShellError((command[0].line, sentence))
        rest = command[1:] if command[0].text == "export" else command
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
            env[match["name"]] = "$" if rest[0].expands else match["value"]
            lines[f"env.{match['name']}"] = rest[0].line
            rest = rest[1:]
        if rest and [word.text for word in rest[:2]] != ["vllm", "serve"]:
            found = " ".join(word.text for word in rest[:2])
            raise ShellError((rest[0].line, f"found {found}; expected vllm serve"))
        serving = rest[2:] if rest else None
    if serving is None:
        raise ShellError((0, "found nothing; expected vllm serve"))
    line = of_words(serving)
    return replace(line, variables=env, lines={**lines, **line.lines})


def of_words(words: Sequence[Word]) -> ServeLine:
    """Read the words that follow ``vllm serve``."""
    starts = [
        place
        for place, word in enumerate(words)
        if word.text.startswith("-") and not _NUMBER.fullmatch(word.text)
    ]
    before = words[: starts[0]] if starts else words
    if extra := before[1:]:
        found = " ".join(word.text for word in extra)
        raise ShellError((extra[0].line, f"found {found}; expected options after the model"))
    first = before[0] if before else None
    if len(starts) > _MOST_OPTIONS:
        sentence = f"found {len(starts)} options; expected {_MOST_OPTIONS} at most"
        raise ShellError((words[starts[0]].line, sentence))
    options: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[tuple[int, str]] = []
    for start, end in zip(starts, [*starts, len(words)][1:], strict=True):
        name, equals, value = words[start].text.partition("=")
        given = [Word(value, words[start].line, words[start].expands)] if equals else []
        try:
            key = _add(options, Word(name, words[start].line), [*given, *words[start + 1 : end]])
            lines[f"args.{key}"] = words[start].line
        except ShellError as error:
            problems += error.found
    model = first.text if first else options.pop("model", None)
    at = first.line if first else lines.get("args.model", 0)
    if not isinstance(model, str):
        problems.append((at, "found no model; expected one after vllm serve"))
    elif first and first.expands:
        problems.append((at, f"found {model}, which a shell expands; expected the model itself"))
    if problems:
        raise ShellError(*problems)
    return ServeLine(str(model), options, {}, {**lines, "checkpoints": at})


def _add(options: dict[str, Any], option: Word, words: list[Word]) -> str:
    """Add one option, and return its key; of one given twice the last counts, as in vLLM."""
    name, dot, path = option.text.partition(".")
    if re.fullmatch("-O[0-9]", name):
        name, words = "-O", [Word(name[2:], option.line), *words]
    if not name.startswith("--") and name not in _SHORT:
        raise ShellError((option.line, f"found {option.text}; expected vLLM's long option"))
    name = _SHORT.get(name, name[2:]).replace("_", "-")
    if expanding := next((word for word in words if word.expands), None):
        if name not in OURS:
            sentence = f"found {expanding.text}, which a shell expands; expected the value itself"
            raise ShellError((expanding.line, sentence))
        # It names what only its author's machines have.
        words = []
    if dot:
        _nest(options.setdefault(name, {}), option, path.split("."), words)
        return name
    if not words:
        # A recipe has `x: false` for --no-x.
        plain = name.removeprefix("no-")
        options[plain] = name == plain
        return plain
    values = [_value(option.text, each) for each in words]
    options[name] = values[0] if len(values) == 1 else values
    return name


def _nest(mapping: Any, option: Word, path: list[str], words: list[Word]) -> None:
    """Put the value of --option.key.key where JSON would hold it."""
    *way, last = path[: _DEEPEST + 1]
    for key in way:
        mapping = mapping.setdefault(key, {}) if isinstance(mapping, dict) else None
    if len(words) != 1 or not isinstance(mapping, dict) or len(path) > _DEEPEST or "+" in last:
        found = " ".join([option.text, *(word.text for word in words)])
        raise ShellError((option.line, f"found {found}; expected --option '{{JSON}}'"))
    text = words[0].text
    mapping[last] = text
    with suppress(ValueError, RecursionError):
        mapping[last] = json.loads(text.lower() if text in ("True", "False") else text)


def _value(option: str, given: Word) -> Any:
    word = given.text
    if word.startswith("{"):
        try:
            return json.loads(word)
        except (ValueError, RecursionError):
            raise ShellError((given.line, f"found {word} after {option}; expected JSON")) from None
    if number := _NUMBER.fullmatch(word):
        return float(word) if number[2] else int(word)
    return word
