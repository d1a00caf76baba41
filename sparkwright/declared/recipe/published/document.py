"""A YAML file of another project, with the lines of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml as pyyaml

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.schema import shown
from sparkwright.declared.recipe.published.serve_line import ShellError

Keys = tuple[str | int, ...]
# Bytes; the largest of the sources' files has a quarter of it.
MOST_BYTES = 2**17
# Why a recipe is for others, where no replica has as many Sparks.
OTHER_COUNT = "another number of Sparks"


class NotForUs(PlanError):
    """A recipe in which nothing is wrong, but that is for others, for a reason."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


class Document:
    """One YAML file.

    Attributes:
        source: Where it is from, as a recipe of ours says it.
        mods: Folders in which the mods that it names may be.
        remarks: What is odd in it without an effect, as ``FILE:LINE: …``.
    """

    def __init__(self, path: Path, source: str, mods: Sequence[Path]) -> None:
        self.path, self.source, self.mods = path, source, mods
        if path.stat().st_size > MOST_BYTES:
            raise PlanError(f"{path}: found more than {MOST_BYTES:,} bytes; expected a recipe")
        found = yaml.read(path)
        refuse(found.twice[False])
        self.data, self.remarks = found.value, found.twice[True]
        self._lines = {**found.lines, "": 1}
        self._blocks = {name for name, word, _ in found.words if word.style in ("|", ">")}
        # Words that the author's program, a reader of YAML 1.1, takes for something else are
        # refused: `solo_only: no` is text here, and false there.
        older: Any = pyyaml.SafeLoader("")
        for name, word, value in found.words:
            node = pyyaml.ScalarNode("", word.value, style=word.style)
            node.tag = older.resolve(pyyaml.ScalarNode, word.value, (not word.style, True))
            read = older.construct_object(node)
            if isinstance(read, bool | int | float) and read != value:
                raise PlanError(
                    f"{path}:{found.lines[name]}: found {word.value}, which programs read "
                    "differently; expected true, false, a decimal number, or quotes"
                )

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
        """Return a mapping; an empty one for nothing."""
        value = self.get(*keys) or {}
        if not isinstance(value, dict):
            raise PlanError(self.wrong(*keys, expected="a mapping"))
        return {str(key): each for key, each in value.items()}

    def texts(self, *keys: str | int) -> list[str]:
        """Return a list of texts; an empty one for nothing."""
        value = self.get(*keys) or []
        if not isinstance(value, list):
            raise PlanError(self.wrong(*keys, expected="a list"))
        return [each if isinstance(each, str) else shown(each) for each in value]

    def line(self, *keys: str | int, within: int | None = None) -> int:
        """Return the line, from 1, of a key, or of the last on the way to it.

        ``within`` is the number of a line of its text, from 0.
        """
        while (name := _name(keys)) not in self._lines:
            keys = keys[:-1]
        inside = -1 if within is None or name not in self._blocks else within
        return self._lines[name] + inside + 1

    def problem(self, keys: Keys, sentence: str, within: int | None = None) -> str:
        """Say a problem as ``FILE:LINE: KEY: found X; expected Y``."""
        return f"{self.path}:{self.line(*keys, within=within)}: {_name(keys)}: {sentence}"

    def wrong(self, *keys: str | int, expected: str) -> str:
        """Say of a value what is expected in its place."""
        value = self.get(*keys)
        found = "nothing" if value is None else shown(value)
        return self.problem(keys, f"found {found}; expected {expected}")

    def shell_error(self, key: str, error: ShellError) -> PlanError:
        """Return the exception for the problems of a text for a shell."""
        return PlanError(*(self.problem((key,), sentence, at) for at, sentence in error.found))


def _name(keys: Keys) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]
