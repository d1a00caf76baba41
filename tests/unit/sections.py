"""What a script of sections prints, in other words."""

from collections.abc import Iterable, Iterator

from sparkwright.common.host_output import MARK


def reworded(output: Iterable[str], **words: Iterable[str]) -> Iterator[str]:
    """Yield the output with other lines in some sections, by their names with `_` for `-`."""
    name = ""
    for line in output:
        if line.startswith(MARK):
            name = line.removeprefix(MARK).replace("-", "_")
            yield line
            yield from words.get(name, ())
        elif name not in words:
            yield line
