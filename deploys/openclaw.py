"""OpenClaw's configuration: python -m deploys.openclaw --help."""

import sys

from sparkwright.gateway.openclaw_command import main

if __name__ == "__main__":
    sys.exit(main())
