"""engine ROOT RELEASE: run the engine of a Spark's second replica, as the first one's is run.

Its hard ends are counted by themselves, and so is what they lead to: two supervisors that counted
the same power cut at a boot would take it for two.
"""

import sys
from pathlib import Path
from typing import NoReturn

from host.common.command_line import words
from host.common.seat import place
from host.engine import pooling


def command() -> NoReturn:
    """Runs the engine that the command line names; does not return."""
    root, release = words(__doc__, "ROOT", "RELEASE")
    sys.argv[1] = str(place(Path(root), release))
    pooling.command()
