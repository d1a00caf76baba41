"""Writes what is made from the code, reference pages and schemas: python -m tests.docs."""

import argparse
from pathlib import Path

from tests.docs.reference import DOCS, PAGES, filled
from tests.docs.runs import recorded
from tests.docs.schemas import SCHEMAS, text


def main() -> None:
    """Write every reference page, each between its markers."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="write docs/first-run.md by the first-run.txt of tests/system/test_person.py",
    )
    options = parser.parse_args()
    if options.recording:
        page = DOCS / "first-run.md"
        page.write_text(filled(page.read_text(), recorded(options.recording.read_text())))
    for page, make in PAGES.items():
        page.write_text(filled(page.read_text(), make()))
    for path, schema in SCHEMAS.items():
        path.write_text(text(schema()))


if __name__ == "__main__":
    main()
