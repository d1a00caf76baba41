"""What a script of sections prints, in other words."""

from collections.abc import Iterable, Iterator

from sparkwright.common.host_output import MARK


def reworded(output: Iterable[str], **words: Iterable[str]) -> Iterator[str]:
    """Yield lines of sections, some sections with other lines.

    Args:
        output: all lines.
        words: lines by the section's name, with `_` for `-`.
    """
    name = ""
    for line in output:
        if line.startswith(MARK):
            name = line.removeprefix(MARK).replace("-", "_")
            yield line
            yield from words.get(name, ())
        elif name not in words:
            yield line
