"""`python -m sparkwright`: the same as `sparkwright`."""

import sys

from sparkwright.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
