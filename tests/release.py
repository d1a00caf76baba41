"""Prints the changelog's section for a tag, unless the tag is not of this version.

python -m tests.release v0.1.0
"""

import argparse
import re
import sys
from pathlib import Path

import sparkwright

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(tag: str, changelog: str, version: str) -> str:
    """Return the text of the changelog about a version, without its heading.

    Args:
        tag: as in git, such as v0.1.0.
        changelog: the whole file.
        version: of the package.

    Raises:
        ValueError: the tag is of another version, or the changelog says nothing about this one.
    """
    if tag != f"v{version}":
        raise ValueError(f"found the tag {tag}; expected v{version}, by sparkwright/__init__.py")
    heading = rf"## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n"
    _, *found = re.split(f"^{heading}", changelog, maxsplit=1, flags=re.MULTILINE)
    text = re.split(r"^## ", found[0], maxsplit=1, flags=re.MULTILINE)[0].strip() if found else ""
    if not text:
        raise ValueError(
            f"CHANGELOG.md: found nothing about {version}; expected a section "
            f"`## {version} - YYYY-MM-DD`"
        )
    return text


def main() -> int:
    """Print the notes; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("tag", help="such as v0.1.0")
    tag = parser.parse_args().tag
    try:
        print(notes(tag, CHANGELOG.read_text(), sparkwright.__version__))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
