"""Reads YAML strictly: every key once, no aliases, bounded in size and depth.

Recipes and files on a Spark are untrusted: with aliases, a few hundred bytes expand to gigabytes.
What YAML reads otherwise than a person does is refused: 022 is 18, 20:22 is 1222, a key `on` true.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.yaml.words import conflict, explained, misread, misread_key

# The lock is the largest: 100 bytes for each file of a checkpoint, 10 KB for the largest one.
MOST_BYTES = 2**20
# A recipe's deepest value, in hf-overrides of by_sparks, is at 8.
DEEPEST = 32
# Digits of a number: Python takes seconds for a million, and refuses to print 4,300.
LONGEST_NUMBER = 100


class _Loader(yaml.SafeLoader):
    """SafeLoader with bounds, which records repeated keys instead of keeping the last one."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.duplicates: list[tuple[int, str]] = []
        self.misread: dict[tuple[int, str], str] = {}
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        name = getattr(event, "anchor", None)
        if name is not None:
            kind = "alias *" if isinstance(event, yaml.AliasEvent) else "anchor &"
            raise yaml.MarkedYAMLError(
                problem=f"the {kind}{name[:60]}",
                problem_mark=event.start_mark,
                note="expected the value itself: aliases are not supported",
            )
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(
                problem="a value inside of others",
                problem_mark=event.start_mark,
                note=f"expected at most {DEEPEST} levels",
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.MarkedYAMLError(
                problem=f"{str(node.value)[:60]}, which cannot be ({error})",
                problem_mark=node.start_mark,
                note="expected another value, or text in quotes",
            ) from None
        if problem := misread(node, value):
            self.misread.setdefault((node.start_mark.line + 1, str(node.value)), problem)
        return value

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if number and len(node.value) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(
                problem=f"a number of {len(node.value)} characters",
                problem_mark=node.start_mark,
                note=f"expected at most {LONGEST_NUMBER}",
            )
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    self.duplicates.append((key.start_mark.line + 1, key.value))
                seen.add(key.value)
                if problem := misread_key(key, super().construct_object(key)):
                    self.misread[key.start_mark.line + 1, key.value] = problem
        return super().construct_mapping(node, deep=deep)


def load(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping.

    Returns:
        The mapping, with plain Python values; an empty file gives an empty one.

    Raises:
        PlanError: The file is missing, unreadable, too large or no YAML, holds something else than
            a mapping, or has a key twice.
    """
    try:
        content = content_of(path, MOST_BYTES)
        # A file that is too large may be cut within a character.
        text = content.decode(errors="strict" if len(content) <= MOST_BYTES else "replace")
    except FileNotFoundError:
        raise PlanError(f"{path}: found no such file; expected a YAML file") from None
    except IsADirectoryError:
        raise PlanError(f"{path}: found a folder; expected a YAML file") from None
    except OSError as error:
        raise PlanError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise PlanError(
            f"{path}: cannot be read as UTF-8 text ({error}): save it with this encoding"
        ) from None
    if path.suffix == ".py":
        raise PlanError(f"{path}: found a Python file; expected a YAML file, as sparks.yaml is")
    data = parse(text, str(path))
    if data is None:
        return {}
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "text without a key"
        raise PlanError(f"{path}: found {kind}; expected a mapping (key: value)")
    return data


def parse(text: str, source: str, *, strict: bool = True) -> Any:
    """Read a text of YAML.

    Args:
        text: What the file holds.
        source: Its name, for messages.
        strict: Refuse repeated keys, and what a person misreads; netplan accepts both.

    Returns:
        Plain Python values.

    Raises:
        PlanError: It is too large, no YAML, or has a key twice.
    """
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise PlanError(f"{source}: found more than {MOST_BYTES:,} bytes; expected at most that")
    if strict and (line := conflict(text)):
        raise PlanError(
            f"{source}:{line}: found a conflict mark of git; expected one version: keep the lines "
            "that count, and remove the marks"
        )
    try:
        loader = _Loader(text)
        data = loader.get_single_data()
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        line, sentence = explained(error, text)
        raise PlanError(f"{source}:{line}: {sentence}") from None
    if not strict:
        return data
    problems = [
        f"{source}:{line}: {key}: found twice; expected once" for line, key in loader.duplicates
    ]
    problems += [f"{source}:{line}: {problem}" for (line, _), problem in loader.misread.items()]
    if problems:
        raise PlanError(*problems)
    return data
