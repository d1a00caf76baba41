"""Run the hub's commands: python -m tests.lab.hub serve | fault."""

import sys

from tests.lab.hub.control import main

sys.exit(main(sys.argv[1:]))
