"""The documentation: reference pages made from the code, and the hooks of the docs site."""

import os
import sys
from pathlib import Path

# Where the programs of a Spark are.
sys.path.append(str(Path(__file__).parents[2] / "files"))
# Pages name `sparkwright` as in an activated environment, without its path.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
