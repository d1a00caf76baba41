"""All that a site without internet needs, in a folder: python -m deploys.bundle --help."""

import sys

from sparkwright.bundle.command import main
from sparkwright.run.last_resort import guarded

if __name__ == "__main__":
    sys.exit(guarded(main))
