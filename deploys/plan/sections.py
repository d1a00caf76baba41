"""One script that reads many things: its output in named sections."""

from collections.abc import Iterable, Mapping

# A line of a script's output that begins with this names the section that follows.
MARK = "@@"


def in_sections(parts: Mapping[str, str]) -> list[str]:
    """Return the lines of a script that runs each part in its section; what fails says nothing.

    Args:
        parts: shell commands by the name of their section.
    """
    return [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]


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
