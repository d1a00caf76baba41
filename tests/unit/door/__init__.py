"""The door: haproxy itself on loopback, with small servers in the place of engines."""

import sys
from pathlib import Path

FILES = Path(__file__).parents[3] / "files" / "door"

sys.path.insert(0, str(FILES))
