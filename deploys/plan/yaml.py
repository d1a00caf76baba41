"""Reads YAML the strict way: one mapping a file, every key once."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from deploys.plan.errors import PlanError


class _Loader(yaml.SafeLoader):
    """SafeLoader that notes repeated keys, of which YAML itself would silently keep the last."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.duplicates: list[tuple[int, str]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    self.duplicates.append((key.start_mark.line + 1, key.value))
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def load(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Args:
        path: The file.

    Returns:
        The mapping, with plain Python values; an empty file gives an empty one.

    Raises:
        PlanError: The file is missing, unreadable or no YAML, holds something else than a mapping,
            or says a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(f"{path}: found no such file; expected a YAML file") from None
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: found no text ({error}); expected UTF-8") from None
    try:
        loader = _Loader(text)
        data = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = " ".join(filter(None, (error.context, error.problem)))
        raise PlanError(f"{path}:{line}: found {what}; expected YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: found {error}; expected YAML") from None
    if loader.duplicates:
        twice = (f"{path}:{line}: {key}: found twice" for line, key in loader.duplicates)
        raise PlanError(*(f"{problem}; expected once" for problem in twice))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise PlanError(f"{path}: found a {type(data).__name__}; expected a mapping (key: value)")
    return data
