"""pyinfra as a person starts it."""

import os
import subprocess
from pathlib import Path

from tests import forked
from tests.clock import patience

PROJECT = Path(__file__).parents[2]


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Run pyinfra to its end; return its exit status and all that it said."""
    with start(folder, *options) as process:
        said, _ = process.communicate(timeout=patience())
    return process.returncode, said


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    """Start pyinfra with inventory.py and deploy.py of a folder."""
    return forked.Pyinfra(
        [*options, "inventory.py", "deploy.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
