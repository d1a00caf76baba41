"""OpenClaw's configuration: python -m deploys.openclaw --help."""

import sys

from sparkwright.openclaw.command import main

if __name__ == "__main__":
    sys.exit(main())
