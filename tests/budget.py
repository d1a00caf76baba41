"""Compares the product's lines of Python with its budget, `lines` of tool.sparkwright.budget.

    python -m tests.budget

A change that adds says in its message what it removed; an issue that tidies lowers the number.
"""

import argparse
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PRODUCT = ("sparkwright", "deploys", "files")


def lines() -> int:
    """Return the lines of the product's Python, blank ones and comments included."""
    paths = (path for folder in PRODUCT for path in (PROJECT / folder).rglob("*.py"))
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def main() -> int:
    """Print what is left of the budget; return 1 if nothing is."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["sparkwright"]
    budget, found = settings["budget"]["lines"], lines()
    print(f"{found:,} lines of product, of {budget:,} in pyproject.toml: {budget - found:,} left")
    return 0 if found <= budget else 1


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(main())
