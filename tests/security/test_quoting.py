"""What a Spark says is no part of a command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sparkwright.engine.facts import EngineSize, Switching
from sparkwright.machine.firewall.deploy import delete_rule
from sparkwright.machine.firewall.firewall import UfwRule
from sparkwright.upkeep.rollout.deploy import speed_command


def test_a_log_that_ends_like_the_journal_runs_nothing(tmp_path: Path) -> None:
    hostile = f"-- cursor: x'; touch {tmp_path}/owned; : '"
    found = Switching().process(["active", "", "a line", hostile])
    assert (found.cursor, found.lines) == (None, ("a line", hostile))
    cursor = "s=0a1b;i=2f;b=9c;m=1;t=5e;x=7d"
    assert Switching().process(["active", "", f"-- cursor: {cursor}"]).cursor == cursor


@pytest.mark.parametrize(
    "hostile", ["x; TOUCH; $(TOUCH) `TOUCH`", "x'; TOUCH; : '", 'x"; TOUCH; : "']
)
def test_what_a_host_said_is_quoted_in_commands(tmp_path: Path, hostile: str) -> None:
    """A release's name comes from a folder, a rule from ufw, a cursor from the journal."""
    hostile = hostile.replace("TOUCH", f"touch {tmp_path}/owned")
    for command in (
        Switching().command(str(tmp_path), hostile, "@1", hostile),
        EngineSize().command(hostile),
        speed_command(str(tmp_path), hostile, hostile),
        str(delete_rule(UfwRule(hostile, "door"))),
    ):
        _sh(tmp_path, command)
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
