"""OpenClaw's configuration: python -m deploys.openclaw --help."""

import sys

from sparkwright.openclaw.command import main
from sparkwright.run.last_resort import guarded

if __name__ == "__main__":
    sys.exit(guarded(main))
