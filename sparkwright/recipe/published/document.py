"""A YAML file of another project, with the lines of its keys, and of options inside its texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml as pyyaml

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.common.yaml import MOST_BYTES
from sparkwright.recipe.published.shell import ShellError

Keys = Sequence[str | int]
# The word that a sentence says was found, to look for its line by.
_FOUND = re.compile(r"found ([^ ;,]*).*", re.DOTALL)


class Document:
    """One YAML file.

    Attributes:
        path: The file, as messages name it.
        data: What it holds.
        remarks: What is odd in it without an effect, as ``FILE:LINE: …``.

    Raises:
        PlanError: It cannot be read, as `sparkwright.common.yaml.load` says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[str] = []
        self.data = yaml.load(path, self.remarks)
        with path.open("rb") as file:
            text = file.read(MOST_BYTES).decode()
        self._lines = text.splitlines()
        self._root: pyyaml.Node | None = pyyaml.compose(text, pyyaml.SafeLoader)

    def get(self, *keys: str | int) -> Any:
        """Return a value; None where a key on the way to it is missing."""
        value: Any = self.data
        for key in keys:
            if isinstance(key, int):
                value = value[key] if isinstance(value, list) and key < len(value) else None
            else:
                value = value.get(key) if isinstance(value, dict) else None
        return value

    def mapping(self, *keys: str | int) -> dict[str, Any]:
        """Return a mapping; an empty one for nothing.

        Raises:
            PlanError: It is something else.
        """
        value = self.get(*keys)
        if not isinstance(value or {}, dict):
            raise self.error(keys, f"found {shown(value)}; expected a mapping")
        return {str(key): each for key, each in (value or {}).items()}

    def text(self, *keys: str | int) -> str | None:
        """Return a text; None for nothing.

        Raises:
            PlanError: It is something else.
        """
        value = self.get(*keys)
        if value is not None and not isinstance(value, str):
            raise self.error(keys, f"found {shown(value)}; expected text")
        return value

    def texts(self, *keys: str | int) -> list[str]:
        """Return a list of texts; an empty one for nothing.

        Raises:
            PlanError: It is something else.
        """
        value = self.get(*keys)
        if not isinstance(value or [], list):
            raise self.error(keys, f"found {shown(value)}; expected a list")
        return [each if isinstance(each, str) else shown(each) for each in value or []]

    def line(self, keys: Keys, within: int | None = None, word: str = "") -> int:
        """Return the number of a line, from 1.

        Args:
            keys: The way to a value: that of its key, or of the last one on the way that exists.
            within: Number of a line of the value, a text, from 0.
            word: What stands on that line. Where the text is folded, it alone tells the line.
        """
        found, node = 1, self._root
        for key in keys:
            step = _step(node, key)
            if step is None:
                return found
            found, node = step
        if within is None or not isinstance(node, pyyaml.ScalarNode):
            return found
        start, end = node.start_mark.line, node.end_mark.line
        # A block (`|`) begins on the line behind its mark.
        guess = start + within + (1 if node.style in ("|", ">") else 0)
        places = [number for number in range(start, end + 1) if word in self._text(number)]
        if not places:
            return min(guess, end) + 1
        return min(places, key=lambda number: abs(number - guess)) + 1

    def _text(self, number: int) -> str:
        return self._lines[number] if number < len(self._lines) else ""

    def problem(self, keys: Keys, sentence: str, within: int | None = None, word: str = "") -> str:
        """Say a problem as ``FILE:LINE: KEY: found X; expected Y``; arguments as for `line`."""
        name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        line = self.line(keys, within, word)
        return f"{self.path}:{line}: {name.removeprefix('.')}: {sentence}"

    def shell_error(self, keys: Keys, error: ShellError) -> PlanError:
        """Return the exception for the problems of a text for a shell, each with its line."""
        return PlanError(
            *(
                self.problem(keys, sentence, at, _FOUND.sub(r"\1", sentence))
                for at, sentence in error.found
            )
        )

    def error(self, keys: Keys, sentence: str) -> PlanError:
        """Return the exception for one problem; arguments as for `problem`."""
        return PlanError(self.problem(keys, sentence))


def _step(node: pyyaml.Node | None, key: str | int) -> tuple[int, pyyaml.Node] | None:
    if isinstance(node, pyyaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item = node.value[key]
        return item.start_mark.line + 1, item
    if isinstance(node, pyyaml.MappingNode):
        for name, value in _pairs(node):
            if name.value == str(key):
                return name.start_mark.line + 1, value
    return None


def _pairs(node: pyyaml.MappingNode) -> Iterator[tuple[pyyaml.ScalarNode, pyyaml.Node]]:
    for name, value in node.value:
        if isinstance(name, pyyaml.ScalarNode):
            yield name, value
