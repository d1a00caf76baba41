"""The names that recipes stand for, recorded: python -m deploys.lock --help."""

import sys

from sparkwright.release.ensure import main
from sparkwright.run.last_resort import guarded

if __name__ == "__main__":
    sys.exit(guarded(main))
