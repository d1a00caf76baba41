"""Reads a `vllm serve` line that was written for a shell, without running any of it.

A text is bounded before it is read, and each pattern looks at each character once or twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sparkwright.common.errors import PlanError

# Characters of a command, once it is filled in, and of a variable; options of a line.
MOST_TEXT, MOST_VALUE, _MOST_OPTIONS, _DEEPEST = 2**16, 2**11, 300, 8

# Options that Sparkwright sets by inventory and replica, whatever a line says of them.
OURS = (
    *("host", "port", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
    *("distributed-executor-backend", "allowed-media-domains"),
)
# vLLM's short options (engine/arg_utils.py of 0.33.0).
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dcp": "decode-context-parallel-size",
    "-pcp": "prefill-context-parallel-size",
    "-ep": "enable-expert-parallel",
    "-n": "nnodes",
    "-r": "node-rank",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-cc": "compilation-config",
    "-ac": "attention-config",
    "-O": "optimization-level",
}
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
# What says how many GPUs a line is for. A Spark has one, and a replica here has two at most.
_SIZE = re.compile(
    r"\s(?P<option>--(?:tensor|pipeline|data)[-_]parallel[-_]size|-tp|-pp|-dp|--nnodes|-n)"
    r"[\s=]['\"]?(?P<size>[0-9]{1,4})\b"
)
# What begins a server: the program, and how vLLM's own pages started it before there was one.
_MODULE = ("-m", "vllm.entrypoints.openai.api_server")
_STARTS = (("vllm", "serve"), ("python", *_MODULE), ("python3", *_MODULE))
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")
# Commands without an effect on what runs.
_IDLE = ("echo", "printf", "true", ":", "set")


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


@dataclass(frozen=True)
class ServeLine:
    """The model and options of a `vllm serve` line.

    Attributes:
        options: Values by long option without dashes, as a recipe's ``args`` hold them.
        variables: What is set before it, for it alone or by ``export``.
        lines: The lines, from 0, of what our keys say: ``args.NAME``, ``env.NAME``, and of the
            model as ``checkpoints``.
    """

    model: str
    options: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace each ``{key}`` by its value; if ``{{`` occurs, it and ``}}`` stand for a brace.

    A value may hold the keys of others, as sparkrun has it.

    Raises:
        ShellError: A key has no value, or the text becomes too long.
    """
    pattern = _ESCAPED if "{{" in template else _PLACEHOLDER
    missing: dict[str, int] = {}
    whole: dict[str, str] = {}
    for match in pattern.finditer(template):
        key = match["key"]
        if key and values.get(key) is None:
            missing.setdefault(key, template.count("\n", 0, match.start()))
        elif key and key not in whole:
            whole[key] = filled(str(values[key]), values)
    if missing:
        sentence = "found {{{}}}; expected it among `defaults`"
        raise ShellError(*((line, sentence.format(key)) for key, line in missing.items()))
    return _replaced(pattern, template, whole, MOST_TEXT)


def filled(text: str, values: Mapping[str, object], most: int = MOST_TEXT) -> str:
    """Replace each ``{key}`` that has a value, and nothing else."""
    known = {key: str(value) for key, value in values.items() if value is not None}
    return _replaced(_PLACEHOLDER, text, known, most)


def _replaced(pattern: re.Pattern[str], text: str, known: Mapping[str, str], most: int) -> str:
    parts: list[str] = []
    size = at = 0
    for match in [*pattern.finditer(text), None]:
        start = match.start() if match else len(text)
        new = (known.get(match["key"], match[0]) if match["key"] else match[0][0]) if match else ""
        parts += [text[at:start], new]
        size += start - at + len(new)
        if size > most:
            sentence = f"found more than {most:,} characters, its keys filled in; expected fewer"
            raise ShellError((0, sentence))
        at = match.end() if match else start
    return "".join(parts)


def beyond_two(text: str) -> tuple[int, str] | None:
    """Return what makes a line one for more than two Sparks, with its line; None: nothing does.

    It looks for words alone, so that it finds them in a line that cannot be read, too.
    """
    sizes = {match["option"].lstrip("-")[0]: match for match in _SIZE.finditer(text)}
    parallel = [match for kind, match in sizes.items() if kind != "n"]
    large = [match for match in sizes.values() if int(match["size"]) > 2]
    if not large and math.prod(int(match["size"]) for match in parallel) > 2:
        large = parallel[-1:]
    if not large:
        return None
    found = f"found {large[0]['option']} {large[0]['size']}; expected 1 or 2, the number of Sparks"
    return text.count("\n", 0, large[0].start("option")), found


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


def _commands(text: str) -> Iterator[list[Word]]:
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


def parse_line(text: str) -> ServeLine:
    """Take one ``vllm serve`` command apart, as a shell and vLLM would.

    Before it may stand ``export NAME=VALUE``, and commands that only print.

    Raises:
        ShellError: It is another command or more than one, or a recipe cannot hold its options.
    """
    variables: dict[str, Word] = {}
    serving: list[Word] | None = None
    for command in _commands(text):
        rest = command
        if rest[0].operator and (serving is not None or rest[0].text not in ("&&", ";")):
            raise ShellError((rest[0].line, _else(rest[0].text)))
        rest = rest[1:] if rest[0].operator else rest
        if rest and serving is not None and not _is_idle(rest):
            raise ShellError((rest[0].line, _else("a line break without a backslash")))
        rest = rest[1:] if rest and rest[0].text == "export" else rest
        while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
            variables[match["name"]] = Word(match["value"], rest[0].line, rest[0].expands)
            rest = rest[1:]
        if not rest or _is_idle(rest):
            continue
        words = rest[1:] if rest[0].text == "exec" else rest
        starts = (
            each for each in _STARTS if tuple(word.text for word in words[:3])[: len(each)] == each
        )
        start = next(starts, None)
        if (
            start is None
            and len(rest) == 3
            and rest[0].text in _SHELLS
            and rest[1].text in ("-c", "-lc", "-ec")
        ):
            inner = parse_line(rest[2].text)
            return ServeLine(
                inner.model,
                inner.options,
                _checked(variables) | dict(inner.variables),
                {name: line + rest[2].line for name, line in inner.lines.items()},
            )
        if start is None:
            found = " ".join(word.text for word in rest[:2])
            raise ShellError((rest[0].line, f"found {found}; expected vllm serve"))
        serving = words[len(start) :]
    if serving is None:
        raise ShellError((0, "found nothing; expected vllm serve"))
    line = of_words(serving)
    places = {f"env.{name}": word.line for name, word in variables.items()}
    return ServeLine(line.model, line.options, _checked(variables), {**places, **line.lines})


def of_words(words: Sequence[Word]) -> ServeLine:
    """Read the words that follow ``vllm serve``.

    Raises:
        ShellError: A recipe cannot hold them.
    """
    starts = [i for i, word in enumerate(words) if _is_option(word.text)]
    first = words[0] if words and starts[:1] != [0] else None
    extra = words[1 : starts[0] if starts else None] if first else []
    if extra:
        found = " ".join(word.text for word in extra)
        raise ShellError((extra[0].line, f"found {found}; expected options after the model"))
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


def _checked(variables: Mapping[str, Word]) -> dict[str, str]:
    return {name: "$" if word.expands else word.text for name, word in variables.items()}


def _is_idle(rest: Sequence[Word]) -> bool:
    """Tell whether a command only prints, or has no effect at all."""
    return rest[0].text in _IDLE and not any(word.operator for word in rest)


def prints_only(text: str) -> bool:
    """Tell whether a text for a shell does nothing but print."""
    try:
        return all(_is_idle(command) for command in _commands(text))
    except ShellError:
        return False


def _else(found: str) -> str:
    return f"found {found}; expected one vllm serve line and nothing else"


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _add(options: dict[str, Any], option: Word, words: list[Word]) -> str:
    """Add one option, and return its key; of one that is given twice the last counts, as in vLLM.

    Raises:
        ShellError: A recipe cannot hold it.
    """
    name, dot, path = option.text.partition(".")
    if not name.startswith("--"):
        # -O3 is -O 3.
        short, level = ("-O", name[2:]) if re.fullmatch("-O[0-9]", name) else (name, "")
        if short not in _SHORT:
            sentence = f"found {option.text}; expected vLLM's long option"
            raise ShellError((option.line, sentence))
        name, words = f"--{_SHORT[short]}", [Word(level, option.line), *words] if level else words
    name = name[2:].replace("_", "-")
    expanding = next((word for word in words if word.expands), None)
    if expanding and name in OURS:
        # It names what only its author's machines have.
        words = []
    elif expanding:
        sentence = f"found {expanding.text}, which a shell expands; expected the value itself"
        raise ShellError((expanding.line, sentence))
    if dot:
        _nest(options.setdefault(name, {}), option, path.split("."), words)
        return name
    if not words:
        # A recipe has `x: false` for --no-x.
        options[name.removeprefix("no-")] = not name.startswith("no-")
        return name.removeprefix("no-")
    values = [_value(option.text, each) for each in words]
    options[name] = values[0] if len(values) == 1 else values
    return name


def _nest(mapping: Any, option: Word, path: list[str], words: list[Word]) -> None:
    """Put the value of --option.key.key where JSON would hold it; --option.key+ adds to a list."""
    *way, last = path
    for key in way:
        mapping = mapping.setdefault(key, {}) if isinstance(mapping, dict) else None
    name = last.removesuffix("+")
    several = name != last
    known = mapping.setdefault(name, []) if several and isinstance(mapping, dict) else []
    fits = isinstance(mapping, dict) and isinstance(known, list) and len(path) <= _DEEPEST
    if len(words) != 1 or not fits:
        found = " ".join([option.text, *(word.text for word in words)])
        raise ShellError((option.line, f"found {found}; expected --option '{{JSON}}'"))
    text = words[0].text
    value: Any = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text.lower() if text in ("True", "False") else text)
    if several:
        known += value.split(",") if isinstance(value, str) else [value]
    else:
        mapping[name] = value


def _value(option: str, given: Word) -> Any:
    """Return the value that a word stands for."""
    word = given.text
    if word.startswith("{"):
        try:
            return json.loads(word)
        except (ValueError, RecursionError):
            raise ShellError((given.line, f"found {word} after {option}; expected JSON")) from None
    if number := _NUMBER.fullmatch(word):
        return float(word) if number[2] else int(word)
    return word
