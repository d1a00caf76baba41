"""The engine's supervisor, which a Spark runs by its own Python."""

import sys
from pathlib import Path

PROGRAMS = Path(__file__).parents[3] / "files" / "engine"

sys.path.insert(0, str(PROGRAMS))
