"""One script that reads many things: its output in named sections."""

from collections.abc import Iterable, Mapping

# A line of a script's output that begins with this names the section that follows.
MARK = "@@"


def sections_script(parts: Mapping[str, str]) -> str:
    """Return a POSIX shell script that prints each part's output as a section; it exits 0.

    Args:
        parts: shell commands by the name of their section; one that fails prints less, and nothing
            of its errors.
    """
    lines = [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]
    return "\n".join([*lines, "true"])


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
