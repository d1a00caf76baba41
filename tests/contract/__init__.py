"""The same cases against vLLM and its stand-in: where they differ, the stand-in is wrong."""

import sys
from pathlib import Path

# Where the programs of a Spark are.
sys.path.append(str(Path(__file__).parents[2] / "files"))
