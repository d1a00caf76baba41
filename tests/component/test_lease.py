"""One run at a time changes a Spark: the script and whole runs, on this machine."""

import re
import signal
import subprocess
import threading
from math import ceil
from pathlib import Path

import pytest

from sparkwright.run import lease
from sparkwright.run.lease import FOLDER, hold_script, holder
from tests.clock import patience
from tests.component import command_line
from tests.component.servers import until

OWNER = "ann at laptop: spark.py 100 % 'x' \\n"
SINCE = r", since \d\d [A-Z][a-z]{2} \d\d:\d\d"


class Lock:
    """The script, asked for the lock in a folder."""

    def __init__(self, folder: Path, owner: str = OWNER) -> None:
        script = hold_script(owner, str(folder / "root")).replace(FOLDER, str(folder))
        self.process = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.holder = holder(self.process.stdout.readline())

    def give_back(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(patience()) == 0


def test_what_a_run_changes_is_recorded_once_there_is_a_folder_for_it(tmp_path: Path) -> None:
    run = Lock(tmp_path)
    assert run.process.stdin
    run.process.stdin.write("\nPreflight\n\n")
    state = tmp_path / "root" / "state"
    state.mkdir(parents=True)
    run.process.stdin.write("Door | 100 % 'x' \\n $HOME\n")
    run.give_back()
    lines = (state / "changes.log").read_text().splitlines()
    assert [line.partition(f" {OWNER}: ")[2] for line in lines] == [
        "Preflight",
        "Door | 100 % 'x' \\n $HOME",
    ]
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in lines)


def test_whoever_waits_gets_it_when_it_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a run that was killed, and started again at once."""
    monkeypatch.setattr(lease, "WAIT", round(patience()))
    first = Lock(tmp_path)
    assert first.holder is None
    threading.Timer(0.2, first.give_back).start()
    second = Lock(tmp_path)
    assert second.holder is None
    second.give_back()


@pytest.mark.parametrize("said", ["", "\n", "hello\n", "sh: 1: flock: not found\n"])
def test_what_is_no_lock_is_not_read_as_one(said: str) -> None:
    with pytest.raises(ValueError, match="expected the lease"):
        holder(said)


# Which of the two run at once is told by files: whoever has begun says so, and waits for its end.
INVENTORY = """
from pathlib import Path
root = str(Path(__file__).absolute().parent / "root")
hosts = [("@local", {"spark": "spark-a", "root": root})]
"""
DEPLOY = """
import time
from pathlib import Path
from pyinfra import host, state
from pyinfra.api import FunctionCommand, operation
from sparkwright.run.lease import hold_lease
from sparkwright.run import lease

HERE = Path(__file__).parent
lease.FOLDER = str(HERE / "run")
OTHER

def keepers():
    return [each for each in state.callback_handlers if isinstance(each, lease.LeaseKeeper)]

@operation()
def work():
    def wait():
        (HERE / "begun").touch()
        while not (HERE / "end").exists():
            if any(each.lost for each in keepers()):
                (HERE / "lost").touch()
            time.sleep(0.02)
    yield FunctionCommand(wait, (), {})

hold_lease()
work(name="First")
work(name="Second")
"""

OFTEN = "lease.BEAT = 0.05"
# After so long without a word a Spark gives the lock up.
SHORT = ceil(patience(3))
SOON = f"lease.SILENCE = {SHORT}"


class Deploy:
    """A folder in which runs of pyinfra work on this machine."""

    def __init__(self, folder: Path, other: str = "") -> None:
        self.folder = folder
        (folder / "inventory.py").write_text(INVENTORY)
        (folder / "deploy.py").write_text(DEPLOY.replace("OTHER", other))

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return command_line.start(self.folder, *options)

    def wait_for(self, word: str) -> None:
        """Wait until a run has made a file: it has begun, ..."""
        until((self.folder / word).exists)


def test_a_run_that_lives_keeps_its_lock_and_the_second_of_two_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy = Deploy(tmp_path, f"{OFTEN}; {SOON}")
    state = tmp_path / "root" / "state"
    state.mkdir(parents=True)
    with deploy.start("-y") as first:
        deploy.wait_for("begun")
        # One that is silent from now on has lost its own.
        monkeypatch.setattr(lease, "SILENCE", SHORT)
        assert Lock(tmp_path / "other").process.wait(patience()) == 0
        assert deploy.start("--dry").wait(patience()) == 0
        said = command_line.run(tmp_path, "-y").failed("spark-a: found another run at work on it (")
        assert re.search(rf"deploy\.py, Sparkwright .+{SINCE}\); expected none", said)
        (tmp_path / "end").touch()
        assert first.wait(patience()) == 0
    assert not (tmp_path / "lost").exists()
    lines = (state / "changes.log").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["First", "Second"]
    assert all("deploy.py, Sparkwright " in line for line in lines)
    command_line.run(tmp_path, "-y").succeeded()


def test_a_run_that_freezes_gives_way_to_another(tmp_path: Path) -> None:
    """As on a laptop that sleeps: what it holds stays open, and nobody is at its end."""
    deploy = Deploy(tmp_path, f"{OFTEN}; {SOON}")
    free = ["flock", "--nonblock", str(tmp_path / "run/lock"), "true"]
    with deploy.start("-y") as first:
        deploy.wait_for("begun")
        try:
            first.send_signal(signal.SIGSTOP)
            until(lambda: subprocess.run(free, check=False).returncode == 0)
            (tmp_path / "begun").unlink()
            with deploy.start("-y") as second:
                deploy.wait_for("begun")
                first.send_signal(signal.SIGCONT)
                deploy.wait_for("lost")
                (tmp_path / "end").touch()
                assert second.wait(patience()) == 0
        finally:
            first.send_signal(signal.SIGCONT)
            (tmp_path / "end").touch()
        said, _ = first.communicate(timeout=patience())
    assert first.returncode == 1
    assert "this run lost its lease" in said
    assert "Starting operation: Second" not in said
