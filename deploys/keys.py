"""The API keys of a fleet: python -m deploys.keys --help."""

import sys

from sparkwright.door.keys import main
from sparkwright.run.last_resort import guarded

if __name__ == "__main__":
    sys.exit(guarded(main))
