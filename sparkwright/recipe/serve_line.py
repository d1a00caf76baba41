"""Reads a `vllm serve` line that was written for a shell."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.common.errors import PlanError

# vLLM's short options (engine/arg_utils.py of 0.32.0).
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-ep": "enable-expert-parallel",
    "-n": "nnodes",
    "-r": "node-rank",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-cc": "compilation-config",
    "-ac": "attention-config",
    "-O": "optimization-level",
}
_PLACEHOLDER = re.compile(r"\{(?P<key>[A-Za-z_]\w*)\}")
_ESCAPED = re.compile(rf"{_PLACEHOLDER.pattern}|\{{\{{|\}}\}}")
_CONTINUATION = re.compile(r"\\[ \t]*\n")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
# What ends a command, or sends its output elsewhere, when no quotes are around it.
_OPERATORS = "();<>|&\n"


@dataclass(frozen=True)
class ServeLine:
    """The model and options of a `vllm serve` line.

    Attributes:
        model: As it is written there.
        options: Values by long option without dashes, as a recipe's ``args`` hold them.
    """

    model: str
    options: Mapping[str, Any]


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace each ``{key}`` by its value; if ``{{`` occurs, it and ``}}`` stand for a brace.

    Raises:
        PlanError: A key has no value.
    """
    pattern = _ESCAPED if "{{" in template else _PLACEHOLDER
    keys = dict.fromkeys(match["key"] for match in pattern.finditer(template) if match["key"])
    if missing := [key for key in keys if values.get(key) is None]:
        raise PlanError(*(f"found {{{key}}}; expected it among `defaults`" for key in missing))
    return pattern.sub(
        lambda match: str(values[match["key"]]) if match["key"] else match[0][0], template
    )


def parse_line(text: str) -> ServeLine:
    """Take a line apart, as a shell and vLLM would.

    Args:
        text: One ``vllm serve`` command, on several lines if each but the last ends in a backslash.

    Raises:
        PlanError: It is another command or more than one, or a recipe cannot hold its options.
    """
    words = _words(text)
    if words[:2] != ["vllm", "serve"]:
        raise PlanError(f"found {shlex.join(words[:2]) or 'nothing'}; expected vllm serve")
    rest = words[2:]
    model = rest.pop(0) if rest and not rest[0].startswith("-") else None
    options: dict[str, Any] = {}
    problems: list[str] = []
    for name, values in _groups(rest):
        try:
            _add(options, name, values)
        except PlanError as error:
            problems += error.problems
    model = model or options.pop("model", None)
    if not isinstance(model, str):
        problems.append("found no model; expected one after vllm serve")
    if problems:
        raise PlanError(*problems)
    return ServeLine(str(model), options)


def _words(text: str) -> list[str]:
    lines = _CONTINUATION.sub(" ", text)
    lexer = shlex.shlex(lines.strip().rstrip("\\"), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise PlanError(f"found a line with invalid shell quoting ({error})") from None
    for word in words:
        if (word and set(word) <= set(_OPERATORS)) or word.startswith("#"):
            shown = "a line break without a backslash" if set(word) == {"\n"} else word
            raise PlanError(f"found {shown}; expected one vllm serve line and nothing else")
        if "$" in word or "`" in word:
            raise PlanError(f"found {word}, which a shell expands; expected the value itself")
    return words


def _groups(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each option with the words that follow it."""
    start = next((i for i, word in enumerate(words) if _is_option(word)), len(words))
    if start:
        raise PlanError(f"found {' '.join(words[:start])}; expected options after the model")
    while words:
        end = next((i for i, word in enumerate(words[1:], 1) if _is_option(word)), len(words))
        name, equals, value = words[0].partition("=")
        yield name, ([value] if equals else []) + words[1:end]
        words = words[end:]


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _add(options: dict[str, Any], word: str, words: list[str]) -> None:
    """Add one option; of one that is given twice the last counts, as in vLLM."""
    if not word.startswith("--"):
        # -O3 is -O 3.
        short, level = ("-O", word[2:]) if re.fullmatch("-O[0-9]", word) else (word, "")
        if short not in _SHORT:
            raise PlanError(f"found {word}; expected vLLM's long option in its place")
        name, words = _SHORT[short], [level, *words] if level else words
    else:
        name, dot, path = word[2:].partition(".")
        name = name.replace("_", "-")
        if dot:
            _nest(options.setdefault(name, {}), word, path.split("."), words)
            return
    if not words:
        # A recipe has `x: false` for --no-x.
        negated = name.startswith("no-")
        options[name.removeprefix("no-")] = not negated
        return
    values = [_value(word, each) for each in words]
    options[name] = values[0] if len(values) == 1 else values


def _nest(mapping: Any, word: str, path: list[str], words: list[str]) -> None:
    """Put the value of --option.key.key where JSON would hold it."""
    if len(words) != 1 or not isinstance(mapping, dict):
        raise PlanError(f"found {' '.join([word, *words])}; expected --option '{{JSON}}'")
    for key in path[:-1]:
        mapping = mapping.setdefault(key, {})
    try:
        mapping[path[-1]] = json.loads(words[0].lower() if words[0] in _BOOLEANS else words[0])
    except ValueError:
        mapping[path[-1]] = words[0]


_BOOLEANS = ("True", "False")


def _value(option: str, word: str) -> Any:
    """Return the value that a word stands for."""
    if word.startswith("{"):
        try:
            return json.loads(word)
        except ValueError:
            raise PlanError(f"found {word} after {option}; expected JSON") from None
    if number := _NUMBER.fullmatch(word):
        return float(word) if number[2] else int(word)
    return word
