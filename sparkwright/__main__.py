"""The program `sparkwright`; Ctrl-C ends it from its first moment on."""

import sys

from sparkwright.cli.start import leave_on_interrupt

leave_on_interrupt()

from sparkwright.cli.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
