"""One script that reads many things: its output in named sections."""

from collections.abc import Iterable

# A line of a script's output that begins with this names the section that follows.
MARK = "@@"


def sections(output: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of each section by its name.

    Raises:
        ValueError: a line stands before the first section.
    """
    found: dict[str, list[str]] = {}
    current = None
    for line in output:
        if line.startswith(MARK):
            current = found.setdefault(line.removeprefix(MARK), [])
        elif current is None:
            raise ValueError(f"found {line!r} before any section")
        else:
            current.append(line)
    return found
