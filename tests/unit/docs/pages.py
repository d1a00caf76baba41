"""The pages of the documentation, as tests read them."""

import re
import textwrap
from pathlib import Path

PROJECT = Path(__file__).parents[3]
DOCS = PROJECT / "docs"
PAGES = [
    *sorted(PROJECT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def fences(text: str, *kinds: str) -> list[str]:
    found = _FENCE.findall(text)
    return [textwrap.dedent(content) for _, kind, content in found if kind in kinds]


def prose(text: str) -> str:
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        number = 0
        while (anchor := f"{base}-{number}" if number else base) in found:
            number += 1
        found.add(anchor)
    return found
