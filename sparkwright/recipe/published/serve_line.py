"""Reads a `vllm serve` line that was written for a shell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sparkwright.recipe.published.shell import ShellError, Word, commands

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
_PLACEHOLDER = re.compile(r"\{(?P<key>[A-Za-z_][\w-]*)\}")
_ESCAPED = re.compile(rf"{_PLACEHOLDER.pattern}|\{{\{{|\}}\}}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_BOOLEANS = ("True", "False")
# What says how many GPUs a line is for. A Spark has one, and a replica here has two at most.
_SIZE = re.compile(
    r"\s(?P<option>--(?:tensor|pipeline|data)[-_]parallel[-_]size|-tp|-pp|-dp|--nnodes|-n)"
    r"[\s=]+['\"]?(?P<size>[0-9]{1,4})\b"
)

# What begins a server: the program, and how vLLM's own pages started it before there was one.
_STARTS = (
    ("vllm", "serve"),
    ("python", "-m", "vllm.entrypoints.openai.api_server"),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
)
_SHELLS = ("bash", "sh", "/bin/bash", "/bin/sh")
# Commands without an effect on what runs.
_IDLE = ("echo", "printf", "true", ":", "set")


@dataclass(frozen=True)
class ServeLine:
    """The model and options of a `vllm serve` line.

    Attributes:
        model: As it is written there.
        options: Values by long option without dashes, as a recipe's ``args`` hold them.
        variables: What is set before it, for it alone or by ``export``.
        lines: Numbers of the lines, from 0, on which the options and variables are, and the model
            as ``model``.
    """

    model: str
    options: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def places(self) -> Iterator[tuple[str, str, int]]:
        """Yield our key for each of `lines`, the word that stands there, and the line."""
        for name, line in self.lines.items():
            if name == "model":
                yield "checkpoints", "serve", line
            else:
                yield f"{'env' if name in self.variables else 'args'}.{name}", name, line


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace each ``{key}`` by its value; if ``{{`` occurs, it and ``}}`` stand for a brace.

    A value may hold the keys of others, as sparkrun has it.

    Raises:
        ShellError: A key has no value.
    """
    pattern = _ESCAPED if "{{" in template else _PLACEHOLDER
    missing: dict[str, int] = {}
    for match in pattern.finditer(template):
        if match["key"] and values.get(match["key"]) is None:
            missing.setdefault(match["key"], template.count("\n", 0, match.start()))
    if missing:
        sentence = "found {{{}}}; expected it among `defaults`"
        raise ShellError(*((line, sentence.format(key)) for key, line in missing.items()))
    return pattern.sub(
        lambda match: filled(str(values[match["key"]]), values) if match["key"] else match[0][0],
        template,
    )


def filled(text: str, values: Mapping[str, object]) -> str:
    """Replace each ``{key}`` that has a value, and nothing else."""
    return _PLACEHOLDER.sub(
        lambda match: match[0] if values.get(match["key"]) is None else str(values[match["key"]]),
        text,
    )


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


def parse_line(text: str) -> ServeLine:
    """Take one ``vllm serve`` command apart, as a shell and vLLM would.

    Before it may stand ``export NAME=VALUE``, and commands that only print.

    Raises:
        ShellError: It is another command or more than one, or a recipe cannot hold its options.
    """
    variables: dict[str, Word] = {}
    serving: list[Word] | None = None
    for command in commands(text):
        rest = command
        if rest[0].operator and (serving is not None or rest[0].text not in ("&&", ";")):
            raise ShellError((rest[0].line, _else(rest[0].text)))
        rest = rest[1:] if rest[0].operator else rest
        if not rest:
            continue
        if serving is not None:
            if not _is_idle(rest):
                raise ShellError((rest[0].line, _else("a line break without a backslash")))
            continue
        rest = _assigned(rest[1:] if rest[0].text == "export" else rest, variables)
        if not rest or _is_idle(rest):
            continue
        serving = _server(rest)
        if serving is None and (script := _script(rest)):
            inner = parse_line(script.text)
            return ServeLine(
                inner.model,
                inner.options,
                _checked(variables) | dict(inner.variables),
                {name: line + script.line for name, line in inner.lines.items()},
            )
        if serving is None:
            found = " ".join(word.text for word in rest[:2])
            raise ShellError((rest[0].line, f"found {found}; expected vllm serve"))
    if serving is None:
        raise ShellError((0, "found nothing; expected vllm serve"))
    line = of_words(serving)
    places = {name: word.line for name, word in variables.items()}
    return ServeLine(line.model, line.options, _checked(variables), {**places, **line.lines})


def of_words(rest: Sequence[Word]) -> ServeLine:
    """Read the words that follow ``vllm serve``.

    Raises:
        ShellError: A recipe cannot hold them.
    """
    words = list(rest)
    first = words.pop(0) if words and not words[0].text.startswith("-") else None
    options: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[tuple[int, str]] = []
    for name, values in _groups(words):
        try:
            key = _add(options, name, values)
            lines[key] = name.line
        except ShellError as error:
            problems += error.found
    model = first.text if first else options.pop("model", None)
    at = first.line if first else lines.get("model", 0)
    if not isinstance(model, str):
        problems.append((at, "found no model; expected one after vllm serve"))
    elif first and first.expands:
        problems.append((at, f"found {model}, which a shell expands; expected the model itself"))
    if problems:
        raise ShellError(*problems)
    return ServeLine(str(model), options, {}, {**lines, "model": at})


def _assigned(rest: list[Word], variables: dict[str, Word]) -> list[Word]:
    """Take the assignments from the beginning of a command; return what follows them."""
    while rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
        variables[match["name"]] = Word(match["value"], rest[0].line, rest[0].expands)
        rest = rest[1:]
    return rest


def _checked(variables: Mapping[str, Word]) -> dict[str, str]:
    return {name: "$" if word.expands else word.text for name, word in variables.items()}


def _server(rest: list[Word]) -> list[Word] | None:
    """Return what follows ``vllm serve``; None: it is another command."""
    rest = rest[1:] if rest[0].text == "exec" else rest
    for start in _STARTS:
        if tuple(word.text for word in rest[: len(start)]) == start:
            return rest[len(start) :]
    return None


def _script(rest: list[Word]) -> Word | None:
    """Return the script of ``bash -c SCRIPT``; None: it is another command."""
    if len(rest) == 3 and rest[0].text in _SHELLS and rest[1].text in ("-c", "-lc", "-ec"):
        return rest[2]
    return None


def _is_idle(rest: Sequence[Word]) -> bool:
    """Tell whether a command only prints, or has no effect at all."""
    return rest[0].text in _IDLE and not any(word.operator for word in rest)


def prints_only(text: str) -> bool:
    """Tell whether a text for a shell does nothing but print."""
    try:
        return all(_is_idle(command) for command in commands(text))
    except ShellError:
        return False


def _else(found: str) -> str:
    return f"found {found}; expected one vllm serve line and nothing else"


def _groups(words: list[Word]) -> Iterator[tuple[Word, list[Word]]]:
    """Yield each option with the words that follow it."""
    start = next((i for i, word in enumerate(words) if _is_option(word.text)), len(words))
    if start:
        found = " ".join(word.text for word in words[:start])
        raise ShellError((words[0].line, f"found {found}; expected options after the model"))
    while words:
        end = next((i for i, word in enumerate(words[1:], 1) if _is_option(word.text)), len(words))
        name, equals, value = words[0].text.partition("=")
        first = Word(value, words[0].line, words[0].expands)
        yield Word(name, words[0].line), ([first] if equals else []) + words[1:end]
        words = words[end:]


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _add(options: dict[str, Any], option: Word, words: list[Word]) -> str:
    """Add one option, and return its key; of one that is given twice the last counts, as in vLLM.

    Raises:
        ShellError: A recipe cannot hold it.
    """
    word = option.text
    if not word.startswith("--"):
        # -O3 is -O 3.
        short, dot, path = word.partition(".")
        short, level = ("-O", short[2:]) if re.fullmatch("-O[0-9]", short) else (short, "")
        if short not in _SHORT:
            raise ShellError((option.line, f"found {word}; expected vLLM's long option"))
        name, words = _SHORT[short], [Word(level, option.line), *words] if level else words
    else:
        name, dot, path = word[2:].partition(".")
        name = name.replace("_", "-")
    if dot:
        _expanded(words)
        _nest(options.setdefault(name, {}), option, path.split("."), words)
        return name
    if name in OURS and any(word.expands for word in words):
        # It names what only its author's machines have.
        words = []
    _expanded(words)
    if not words:
        # A recipe has `x: false` for --no-x.
        negated = name.startswith("no-")
        options[name.removeprefix("no-")] = not negated
        return name.removeprefix("no-")
    values = [_value(word, each) for each in words]
    options[name] = values[0] if len(values) == 1 else values
    return name


def _expanded(words: Iterable[Word]) -> None:
    for word in words:
        if word.expands:
            sentence = f"found {word.text}, which a shell expands; expected the value itself"
            raise ShellError((word.line, sentence))


def _nest(mapping: Any, option: Word, path: list[str], words: list[Word]) -> None:
    """Put the value of --option.key.key where JSON would hold it."""
    texts = [word.text for word in words]
    *way, last = path
    for key in way:
        mapping = mapping.setdefault(key, {}) if isinstance(mapping, dict) else None
    name = last.removesuffix("+")
    # --option.key+ adds to a list.
    several = name != last
    known = mapping.setdefault(name, []) if several and isinstance(mapping, dict) else []
    if len(texts) != 1 or not isinstance(mapping, dict) or not isinstance(known, list):
        found = " ".join([option.text, *texts])
        raise ShellError((option.line, f"found {found}; expected --option '{{JSON}}'"))
    value: Any = texts[0]
    with suppress(ValueError):
        value = json.loads(value.lower() if value in _BOOLEANS else value)
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
        except ValueError:
            raise ShellError((given.line, f"found {word} after {option}; expected JSON")) from None
    if number := _NUMBER.fullmatch(word):
        return float(word) if number[2] else int(word)
    return word
