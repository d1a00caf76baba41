"""Which Sparks of a fleet `upgrade` changes: pyinfra on fake hosts."""

import shutil
from pathlib import Path

from tests.component import command_line

INVENTORY = """
import re

FAILS = {re.compile(">&2; exit 1$"): {"success": False}}

def _spark(name, replica):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": FAILS,
        "spark": name, "replica": replica, "hold_system": True,
        "recipe": "some", "ranks": ["b", "c"] if replica == "pair" else [name],
    }

sparks = [_spark("a", "chat"), _spark("b", "pair"), _spark("c", "pair"), _spark("d", "code")]
"""
# What is found of a Spark is the test's; what apt is to do there, a file tells.
DEPLOY = """
from pathlib import Path
from pyinfra.api import FunctionCommand
from sparkwright.machine.host.operations import system
from sparkwright.run.session import start_session

FOLDER = Path(__file__).parent

def read(spark, ask):
    done = (FOLDER / f"{spark.data.spark}-upgrade").exists()
    news = "kernel", "kernel (linux-nvidia)", "6.17", "7.0", "held"
    brought = {"linux-image-7": False} if done else {}
    return system.System(
        packages={"linux-nvidia": True, "linux-own": True, **brought},
        ours=("linux-nvidia", "linux-gone"),
        now={"kernel": "6.17"},
        coming=(news,) if OLD and not done else (),
    )

def apt(doing, names):
    def note(state, host):
        (FOLDER / f"{host.data.spark}-{doing}").write_text(" ".join(names))
        return True
    return FunctionCommand(note, (), {})

system.read, system.system_apt = read, apt
start_session()
system.upgrade(name="Packages of the system")
system.system_packages(name="Marks, which an upgrade ends")
"""


def run(folder: Path, *options: str, old: bool = True) -> tuple[int, str, dict[str, str]]:
    """Return exit status and output, and what apt is to do, by Spark and verb."""
    shutil.copy(command_line.PROJECT / "config.py", folder)
    (folder / "inventory.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(f"OLD = {old}\n{DEPLOY}")
    status, said = command_line.run(folder, *options)
    assert "Traceback" not in said, said
    return status, said, {path.name: path.read_text() for path in folder.glob("?-*")}


def test_a_fleet_is_refused_and_the_first_replica_named(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "-y")
    assert (status, done) == (1, {}), said
    status, said, done = run(tmp_path, "--dry")
    assert (status, done) == (1, {}), said
    assert "Found 3 replicas; expected one at a time, at first: " in said
    assert "deploys/upgrade.py --limit chat" in said


def test_one_replica_and_then_the_next_is_named(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "-y", "--limit", "@fake/a")
    assert status == 0, said
    # What the new kernel brought is held, too; its owner's mark is no matter of ours.
    assert done == {"a-upgrade": "linux-nvidia", "a-hold": "linux-image-7"}
    assert "kernel (linux-nvidia): expected 6.17, found 7.0 (held)" in said
    assert "a: has the new packages. Reboot it; then" in said
    assert "verify --limit chat; then pyinfra inventory.py deploys/upgrade.py --limit pair" in said


def test_a_plan_shows_it_and_does_nothing(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "--dry", "--limit", "@fake/a")
    assert (status, done) == (0, {}), said
    assert "kernel (linux-nvidia): expected 6.17, found 7.0 (held)" in said


def test_both_sparks_of_a_pair(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "-y", "--limit", "@fake/b", "--limit", "@fake/c")
    assert status == 0, said
    assert done.keys() == {"b-upgrade", "b-hold", "c-upgrade", "c-hold"}


def test_after_the_last_replica_there_is_no_next(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "-y", "--limit", "@fake/d")
    assert (status, done.keys()) == (0, {"d-upgrade", "d-hold"}), said
    assert "verify --limit code\n" in said


def test_with_nothing_newer_nothing_is_done(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, "-y", "--limit", "@fake/d", old=False)
    assert (status, done) == (0, {}), said
    assert "d: no package that runs hold (hold_system) has a newer version" in said
