"""Writes the reference pages that are made from the code: python -m tests.docs."""

import argparse
import re
from pathlib import Path

from tests.docs.reference import DOCS, PAGES, filled
from tests.docs.runs import recorded

_EXTERNAL = re.compile(r"https?://[^\s)>`\"'\\]+")
# Addresses of examples.
_EXAMPLES = re.compile(r"https?://(192\.168\.|ADDRESS|SPARK|…|\S*\bexample\.)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument(
        "--links", action="store_true", help="list the links to other hosts, and write nothing"
    )
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="write docs/first-run.md by the first-run.txt of tests/system/test_person.py",
    )
    options = parser.parse_args()
    if options.links:
        print("\n".join(external_links()))
        return
    if options.recording:
        page = DOCS / "first-run.md"
        page.write_text(filled(page.read_text(), recorded(options.recording.read_text())))
    for page, make in PAGES.items():
        page.write_text(filled(page.read_text(), make()))


def external_links() -> list[str]:
    root = DOCS.parent
    pages = [*root.glob("*.md"), *DOCS.rglob("*.md")]
    found = {
        f"{link.rstrip('.,;')}  {page.relative_to(root)}"
        for page in pages
        for link in _EXTERNAL.findall(page.read_text())
        if not _EXAMPLES.match(link)
    }
    return sorted(found)


if __name__ == "__main__":
    main()
