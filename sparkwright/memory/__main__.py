"""Prints the memory plan of a recipe: python -m sparkwright.memory --help."""

import sys

from sparkwright.memory.report import main

if __name__ == "__main__":
    sys.exit(main())
