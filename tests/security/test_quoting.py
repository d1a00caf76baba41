"""What a Spark says is no part of a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sparkwright.machine.firewall.deploy import delete_rule
from sparkwright.machine.firewall.firewall import UfwRule


@pytest.mark.parametrize(
    "hostile", ["x; TOUCH; $(TOUCH) `TOUCH`", "x'; TOUCH; : '", 'x"; TOUCH; : "']
)
def test_what_a_host_said_is_quoted_in_commands(tmp_path: Path, hostile: str) -> None:
    """A rule comes from ufw."""
    hostile = hostile.replace("TOUCH", f"touch {tmp_path}/owned")
    _sh(tmp_path, str(delete_rule(UfwRule(hostile, "door"))))
    assert not (tmp_path / "owned").exists()
    quote = hostile[1] if hostile[1] in "'\"" else ""
    _sh(tmp_path, f"echo {quote}{hostile}{quote}")
    assert (tmp_path / "owned").exists()


def _sh(folder: Path, command: str) -> None:
    """Run a command where there is no program but the one that shows an attack."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "touch").exists():
        (programs / "touch").symlink_to(str(shutil.which("touch")))
    environment = {"PATH": str(programs)}
    subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, check=False)
