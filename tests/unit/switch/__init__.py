"""The program of a switch, which a Spark runs by its own Python."""

import sys
from pathlib import Path

FILES = Path(__file__).parents[3] / "files"

sys.path.insert(0, str(FILES / "switch"))
