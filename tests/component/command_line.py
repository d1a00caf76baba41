"""pyinfra as a person starts it, in a folder with inventory.py and deploy.py."""

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests import forked
from tests.clock import patience

PROJECT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """A run that has ended: its exit status, and all that it said."""

    status: int
    said: str

    def succeeded(self, *texts: str) -> str:
        """Return what it said, with these texts in it."""
        return self._has(0, texts)

    def failed(self, *texts: str) -> str:
        """Return what it said, with these texts in it, and no traceback."""
        assert "Traceback" not in self.said, self.said
        return self._has(1, texts)

    def _has(self, status: int, texts: tuple[str, ...]) -> str:
        assert self.status == status, self.said
        assert [text for text in texts if text not in self.said] == [], self.said
        return self.said


def run(folder: Path, *options: str, inventory: str = "", deploy: str = "") -> Ended:
    """Run pyinfra to its end, by files of these texts, or by those that are there."""
    for name, text in (("inventory.py", inventory), ("deploy.py", deploy)):
        if text:
            (folder / name).write_text(text)
    with start(folder, *options) as process:
        said, _ = process.communicate(timeout=patience())
    return Ended(process.returncode, said)


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


def fake_hosts(**groups: dict[str, dict[str, Any]]) -> str:
    """Return an inventory of hosts that nothing is done to, by group and name, with their data."""
    fake = {"fake_delay": 0, "fake_delay_jitter": 0}
    return "".join(
        f"{group} = {[(f'@fake/{name}', fake | data) for name, data in hosts.items()]!r}\n"
        for group, hosts in groups.items()
    )
