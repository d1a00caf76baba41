"""One run at a time changes a Spark: the script and whole runs, on this machine."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploys.plan import lease
from deploys.plan.lease import FOLDER, Holder, Lease, give_back_script, parse_lease, take_script
from tests.unit import command_line

MINE, OTHER = Holder("aa", 1, "ann at laptop: spark.py"), Holder("bb", 2, "bob's: 100 % 'x' \\n")


def _shell(script: str, folder: Path) -> list[str]:
    script = script.replace(FOLDER, str(folder))
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def _take(folder: Path, holder: Holder, over: Holder | None = None) -> Lease:
    return parse_lease(_shell(take_script(holder, over), folder))


def test_one_has_it_until_it_gives_it_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert _take(folder, OTHER) == Lease(OTHER, lease.SECONDS)
    assert _take(folder, OTHER).holder == OTHER
    found = _take(folder, MINE)
    assert found.holder == OTHER
    assert 0 < found.seconds <= lease.SECONDS
    _shell(give_back_script(MINE), folder)
    assert _take(folder, MINE).holder == OTHER
    _shell(give_back_script(OTHER), folder)
    assert list(folder.iterdir()) == []
    assert _take(folder, MINE).holder == MINE


def test_one_that_nobody_renews_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "SECONDS", 0)
    _take(tmp_path, OTHER)
    monkeypatch.undo()
    assert _take(tmp_path, MINE) == Lease(MINE, lease.SECONDS)


def test_a_dead_run_is_followed_by_name_only(tmp_path: Path) -> None:
    _take(tmp_path, OTHER)
    assert _take(tmp_path, MINE, over=Holder("cc", 2, "")).holder == OTHER
    assert _take(tmp_path, MINE, over=OTHER).holder == MINE


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    holders = [Holder(f"m{number}", number, "x") for number in range(8)]
    runs = [
        subprocess.Popen(
            ["sh", "-c", take_script(holder).replace(FOLDER, str(tmp_path))],
            stdout=subprocess.PIPE,
            text=True,
        )
        for holder in holders
    ]
    said = {parse_lease(run.communicate()[0].splitlines()).holder for run in runs}
    assert len(said) == 1


@pytest.mark.parametrize("said", [[], ["a"], ["a b c"], ["one", "two"]])
def test_what_is_no_lease_is_not_read_as_one(said: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_lease(said)


# Which of the two run at once is told by files: whoever has begun says so, and waits for its end.
INVENTORY = 'hosts = [("@local", {"spark": "spark-a"})]\n'
DEPLOY = """
import time
from pathlib import Path
from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from deploys import lease as keeper
from deploys.lease import hold_lease
from deploys.plan import lease

HERE = Path(__file__).parent
lease.FOLDER = str(HERE / "run")
OTHER

@operation()
def work():
    def wait():
        (HERE / "begun").touch()
        while not (HERE / "end").exists():
            time.sleep(0.05)
    yield FunctionCommand(wait, (), {})

hold_lease()
work(name="First")
work(name="Second")
"""

SHORT = "lease.SECONDS, keeper.RENEWAL = 5, 0.3"
SLOW = """
keeper.RENEWAL = 0.3
take = keeper.take_script
keeper.take_script = lambda *words, **more: "sleep 0.5; " + take(*words, **more)
"""


class Deploy:
    """A folder in which runs of pyinfra work on this machine.

    Args:
        other: what is other than usual: lines of the deploy.
    """

    def __init__(self, folder: Path, other: str = "") -> None:
        self.folder = folder
        (folder / "inventory.py").write_text(INVENTORY)
        (folder / "deploy.py").write_text(DEPLOY.replace("OTHER", other))

    def start(self, *options: str, by: Sequence[str] = ()) -> "subprocess.Popen[str]":
        return command_line.start(self.folder, *options, by=by)

    def begun(self) -> None:
        """Wait until a run is at work."""
        deadline = time.monotonic() + 30
        while not (self.folder / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_second_of_two_runs_is_refused(tmp_path: Path) -> None:
    deploy = Deploy(tmp_path)
    with deploy.start("-y") as first:
        deploy.begun()
        dry = deploy.start("--dry")
        assert dry.wait(30) == 0
        second = deploy.start("-y")
        said, _ = second.communicate(timeout=30)
        assert second.returncode == 1
        assert "spark-a: found another run at work on it (" in said
        assert "deploy.py); expected none" in said
        (tmp_path / "end").touch()
        assert first.wait(30) == 0
    assert deploy.start("-y").wait(30) == 0
    assert list((tmp_path / "run").iterdir()) == []


def test_a_run_that_lives_renews_its_lease(tmp_path: Path) -> None:
    deploy = Deploy(tmp_path, SHORT)
    with deploy.start("-y") as first:
        deploy.begun()
        time.sleep(7)
        with deploy.start("-y") as second:
            assert second.wait(30) == 1
        (tmp_path / "end").touch()
        assert first.wait(30) == 0


def test_a_run_that_has_lost_its_lease_begins_no_more(tmp_path: Path) -> None:
    """As after hours in which the machine slept, and another run came."""
    deploy = Deploy(tmp_path, SHORT)
    with deploy.start("-y") as first:
        deploy.begun()
        bob = Holder("bb", 2, "bob at desk: spark.py")
        holder = _take(tmp_path / "run", bob).holder
        assert _take(tmp_path / "run", bob, over=holder).holder == bob
        time.sleep(2)
        (tmp_path / "end").touch()
        said, _ = first.communicate(timeout=30)
    assert first.returncode == 1
    assert "found another run at work on it (bob at desk: spark.py)" in said
    assert "--> Starting operation: First" in said
    assert "--> Starting operation: Second" not in said
    assert "bob" in (tmp_path / "run/lease").read_text()


def test_a_renewal_on_its_way_takes_nothing_that_was_given_back(tmp_path: Path) -> None:
    deploy = Deploy(tmp_path, SLOW)
    with deploy.start("-y") as run:
        deploy.begun()
        time.sleep(0.5)
        (tmp_path / "end").touch()
        assert run.wait(30) == 0
    time.sleep(1)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_run_that_cannot_be_seen_from_here_is_not_dead(tmp_path: Path) -> None:
    """As of two containers, each of which counts its processes for itself."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to make a namespace of processes")
    deploy = Deploy(tmp_path)
    with deploy.start("-y") as first:
        deploy.begun()
        second = deploy.start("-y", by=apart)
        try:
            assert second.wait(60) == 1
        finally:
            # Whoever has taken the other's lease waits for this, too.
            (tmp_path / "end").touch()
        assert "spark-a: found another run at work on it (" in second.communicate(timeout=20)[0]
        assert first.wait(30) == 0


def test_a_killed_run_holds_nobody_up(tmp_path: Path) -> None:
    deploy = Deploy(tmp_path)
    with deploy.start("-y") as first:
        deploy.begun()
        first.kill()
    (tmp_path / "end").touch()
    with deploy.start("-y") as second:
        assert second.wait(30) == 0
