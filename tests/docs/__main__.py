"""Writes the reference pages that are made from the code: python -m tests.docs."""

import argparse
import re

from tests.docs.reference import DOCS, PAGES, filled

_EXTERNAL = re.compile(r"https?://[^\s)>`\"'\\]+")
# Addresses of examples.
_EXAMPLES = re.compile(r"https?://(192\.168\.|ADDRESS|SPARK|…|\S*\bexample\.)")


def main() -> None:
    """Write every reference page, each between its markers; or list links."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument(
        "--links", action="store_true", help="list the links to other hosts, and write nothing"
    )
    if parser.parse_args().links:
        print("\n".join(external_links()))
        return
    for page, make in PAGES.items():
        page.write_text(filled(page.read_text(), make()))


def external_links() -> list[str]:
    """Return a line for each link to another host, with the page that has it."""
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
