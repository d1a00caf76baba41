"""The documentation: reference pages made from the code, and the hooks of the docs site."""

import sys
from pathlib import Path

# Where the programs of a Spark are.
sys.path.append(str(Path(__file__).parents[2] / "files"))
