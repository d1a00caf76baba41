"""The lines of a YAML file that messages about its values are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.yaml import MOST_BYTES
from sparkwright.common.yaml.words import as_written


@contextmanager
def lines_of(path: Path) -> Iterator[None]:
    """Have each problem with a value of a file name its line: ``FILE:LINE: KEY: found X``.

    The file is read again for it, only when there is one.

    Raises:
        PlanError: The problems that were raised, with their lines.
    """
    try:
        yield
    except PlanError as error:
        ours = any(each.startswith(f"{path}: ") for each in error.problems)
        root = _root(path) if ours else None
        raise PlanError(*(_placed(each, path, root) for each in error.problems)) from None


def _root(path: Path) -> yaml.Node | None:
    """Return the nodes of a file; None of one that is refused whole, as it may be of any size."""
    try:
        content = content_of(path, MOST_BYTES)
        if len(content) > MOST_BYTES:
            return None
        node: yaml.Node | None = yaml.compose(content.decode(), yaml.SafeLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    return node


def _placed(problem: str, path: Path, root: yaml.Node | None) -> str:
    start = f"{path}: "
    if not problem.startswith(start):
        return problem
    text = problem.removeprefix(start)
    line, node, rest = None, root, text
    while node is not None and (step := _step(node, rest)):
        line, node, rest = step
        rest = rest.removeprefix(".")
    if line is None:
        return problem
    if match := re.match(r": found ([^;]+);", rest):
        # The key's part of the message stays as it is.
        found = as_written(node, match[1]) if node is not None else match[1]
        text = f"{text[: -len(rest)]}: found {found}{rest[match.end() - 1 :]}"
    return f"{path}:{line}: {text}"


def _step(node: yaml.Node, text: str) -> tuple[int, yaml.Node, str] | None:
    """Go one step down to what a text such as ``sparks.a[0]: found`` begins with.

    Returns:
        The line of that key or item, its value, and the rest of the text.
    """
    if isinstance(node, yaml.SequenceNode):
        match = re.match(r"\[([0-9]+)\]", text)
        if not match or int(match[1]) >= len(node.value):
            return None
        item = node.value[int(match[1])]
        return item.start_mark.line + 1, item, text[match.end() :]
    if not isinstance(node, yaml.MappingNode):
        return None
    # Names may have dots: the longest key counts.
    fitting = [
        (key.value, key.start_mark.line + 1, value)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode) and re.match(rf"{re.escape(key.value)}[.:\[]", text)
    ]
    if not fitting:
        return None
    name, line, value = max(fitting, key=lambda each: len(each[0]))
    return line, value, text[len(name) :]
