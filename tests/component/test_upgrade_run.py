"""Which Sparks of a fleet `upgrade` changes: pyinfra on fake hosts."""

import shutil
from pathlib import Path

from tests.component import command_line
from tests.component.command_line import Ended

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


def run(folder: Path, *options: str, old: bool = True) -> tuple[Ended, dict[str, str]]:
    """Run it; return also what apt is to do, by Spark and verb."""
    shutil.copy(command_line.PROJECT / "config.py", folder)
    deploy = f"OLD = {old}\n{DEPLOY}"
    ended = command_line.run(folder, *options, inventory=INVENTORY, deploy=deploy)
    return ended, {path.name: path.read_text() for path in folder.glob("?-*")}


def test_a_fleet_is_refused_and_the_first_replica_named(tmp_path: Path) -> None:
    ended, done = run(tmp_path, "-y")
    ended.failed()
    assert done == {}
    ended, done = run(tmp_path, "--dry")
    ended.failed("Found 3 replicas; expected one at a time, at first: ")
    assert "deploys/upgrade.py --limit chat" in ended.said
    assert done == {}


def test_a_plan_does_nothing_and_after_one_replica_the_next_is_named(tmp_path: Path) -> None:
    ended, done = run(tmp_path, "--dry", "--limit", "@fake/a")
    assert done == {}
    ended.succeeded(news := "kernel (linux-nvidia): expected 6.17, found 7.0 (held)")
    ended, done = run(tmp_path, "-y", "--limit", "@fake/a")
    next_one = "verify --limit chat; then pyinfra inventory.py deploys/upgrade.py --limit pair"
    ended.succeeded(news, "a: has the new packages. Reboot it; then", next_one)
    # What the new kernel brought is held, too; its owner's mark is no matter of ours.
    assert done == {"a-upgrade": "linux-nvidia", "a-hold": "linux-image-7"}


def test_both_sparks_of_a_pair(tmp_path: Path) -> None:
    ended, done = run(tmp_path, "-y", "--limit", "@fake/b", "--limit", "@fake/c")
    ended.succeeded()
    assert done.keys() == {"b-upgrade", "b-hold", "c-upgrade", "c-hold"}


def test_after_the_last_replica_there_is_no_next_and_with_nothing_newer_nothing_is_done(
    tmp_path: Path,
) -> None:
    ended, done = run(tmp_path, "-y", "--limit", "@fake/d", old=False)
    ended.succeeded("d: no package that runs hold (hold_system) has a newer version")
    assert done == {}
    ended, done = run(tmp_path, "-y", "--limit", "@fake/d")
    ended.succeeded("verify --limit code\n")
    assert done.keys() == {"d-upgrade", "d-hold"}
