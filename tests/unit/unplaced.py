"""Problems of a YAML file, without its name and the line."""

import re
from collections.abc import Iterable
from pathlib import Path


def unplaced(problems: Iterable[str], path: Path) -> list[str]:
    """Return problems without the file and the line, which each must begin with."""
    place = re.compile(rf"{re.escape(str(path))}:(\d+:)? ")
    matches = [(place.match(problem), problem) for problem in problems]
    assert all(match for match, _ in matches), problems
    return [problem[match.end() :] for match, problem in matches if match]
