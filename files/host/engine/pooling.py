"""engine ROOT RELEASE: run one release's engine, and ask it for what it answers.

As `host.engine.supervisor`, which knows only engines that chat. A release of such a one has that
program alone: what else engines answer is no reason to make it anew.
"""

import asyncio
import sys
from pathlib import Path
from typing import NoReturn

from host.common import pooling
from host.common.command_line import words
from host.common.log import show
from host.engine.supervisor import Supervisor


class AnySupervisor(Supervisor):
    """One run of one rank's engine, whatever it answers."""

    def __init__(self, root: Path, release: str) -> None:
        super().__init__(root, release)
        self._engine = pooling.engine(self._unit)


def command() -> NoReturn:
    """Runs the engine that the command line names; does not return."""
    root, release = words(__doc__, "ROOT", "RELEASE")
    try:
        supervisor = AnySupervisor(Path(root), release)
    except (OSError, ValueError, KeyError) as error:
        show(f"releases/{release}/unit.json: {error!r}: run Sparkwright again")
        sys.exit(2)
    sys.exit(asyncio.run(supervisor.run()))
