"""`sparkwright`, run in this process on any inventory file."""

import contextlib
import os
import sys
from pathlib import Path
from unittest import mock

from sparkwright.cli.main import main
from sparkwright.common.paths import INVENTORY_VARIABLE

_PROJECT = Path(__file__).parents[1]


def sparkwright(*words: str, inventory: Path | None = None) -> int:
    """Run a command in the project's folder with this inventory file, or else in the current one.

    Returns its exit status.
    """
    with contextlib.ExitStack() as changes:
        changes.enter_context(mock.patch.object(sys, "argv", ["tests", *words]))
        if inventory:
            chosen = {INVENTORY_VARIABLE: str(inventory.absolute().with_suffix(""))}
            changes.enter_context(mock.patch.dict(os.environ, chosen))
            changes.enter_context(contextlib.chdir(_PROJECT))
        return main()
