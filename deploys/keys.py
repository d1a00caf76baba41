"""The API keys of a fleet: python -m deploys.keys --help."""

import sys

from sparkwright.door.keys import main

if __name__ == "__main__":
    sys.exit(main())
