"""Which Sparks of a fleet `upgrade` changes, and in which order: pyinfra on fake hosts."""

import shutil
from pathlib import Path

import pytest

from tests.component import command_line

INVENTORY = """
import re

FAILS = {re.compile(">&2; exit 1$"): {"success": False}}

def _spark(name, replica):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": FAILS,
        "spark": name, "replica": replica,
        "recipe": "some", "ranks": ["b", "c"] if replica == "pair" else [name],
    }

sparks = [_spark("a", "chat"), _spark("b", "pair"), _spark("c", "pair"), _spark("d", "code")]
"""
# What is found of a Spark is the test's; what apt is to do there, a file tells.
DEPLOY = """
from pathlib import Path
from types import SimpleNamespace
from pyinfra.api import FunctionCommand
from sparkwright.machine.host.updates import System
from sparkwright.run.session import start_session
from sparkwright.upkeep.upgrade import deploy

FOLDER = Path(__file__).parent
NEW = ["linux-image-7.0"]

def read(spark, ask):
    name = spark.data.spark
    state = STATES[name]
    if ask.model is not System:
        unit = SimpleNamespace(active="failed" if state == "down" else "active")
        return SimpleNamespace(current="r", units={"r": unit})
    runs = {"kernel": "6.17"}
    done = (FOLDER / f"{name}-upgrade").exists()
    newer = [("linux-nvidia", "6.17", "7.0", False), ("linux-own", "1", "2", True)]
    return System(
        packages={"linux-nvidia": True, "linux-own": True, **dict.fromkeys(NEW[:done], False)},
        ours=("linux-nvidia",), newer=tuple(
            ("kernel", *each) for each in newer if state == "old" and not done
        ),
        now=runs, then={"kernel": "7.0"} if state == "due" or done else runs,
    )

def apt(doing, names):
    def note(state, host):
        (FOLDER / f"{host.data.spark}-{doing}").write_text(" ".join(names))
        return True
    return FunctionCommand(note, (), {})

deploy.read, deploy.system_apt = read, apt
start_session()
deploy.apply()
"""
ALL_OLD = dict.fromkeys("abcd", "old")


def run(folder: Path, states: dict[str, str], *options: str) -> tuple[int, str, dict[str, str]]:
    """Return exit status and output, and what apt is to do, by Spark and verb."""
    shutil.copy(command_line.PROJECT / "config.py", folder)
    (folder / "inventory.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(f"STATES = {states}\n{DEPLOY}")
    status, said = command_line.run(folder, *options)
    assert "Traceback" not in said, said
    return status, said, {path.name: path.read_text() for path in folder.glob("?-*")}


def test_the_first_replica_alone_to_the_versions_that_are_shown(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, ALL_OLD, "-y")
    assert status == 0, said
    # What the new kernel brought is held, too; its owner's mark is no matter of ours.
    assert done == {"a-upgrade": "linux-nvidia=7.0", "a-hold": "linux-image-7.0"}
    assert "kernel (linux-nvidia): expected 6.17, found 7.0 comes" in said
    assert "a: has the new packages. Reboot it; then" in said
    assert "verify --limit chat; then the next one" in said


def test_a_plan_shows_it_and_does_nothing(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, ALL_OLD, "--dry")
    assert (status, done) == (0, {}), said
    assert "kernel (linux-nvidia): expected 6.17, found 7.0 comes" in said


@pytest.mark.parametrize(
    ("first", "says"),
    [
        ("due", "chat has new packages, and runs the old ones: reboot it first."),
        ("down", "chat has no old packages, and does not serve: see to it first."),
    ],
)
def test_the_next_one_waits_until_the_first_runs_and_serves(
    tmp_path: Path, first: str, says: str
) -> None:
    states = ALL_OLD | {"a": first}
    status, said, _ = run(tmp_path, states, "--dry")
    assert (status, says in said) == (1, True), said
    assert "upgrade.py --limit NAME" in said
    status, said, done = run(tmp_path, states, "-y")
    assert (status, done) == (1, {}), said


def test_then_both_sparks_of_a_pair(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, ALL_OLD | {"a": "new"}, "-y")
    assert status == 0, said
    assert done.keys() == {"b-upgrade", "b-hold", "c-upgrade", "c-hold"}


def test_one_that_is_chosen(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, ALL_OLD | {"a": "down"}, "-y", "--limit", "@fake/d")
    assert status == 0, said
    assert done.keys() == {"d-upgrade", "d-hold"}


def test_with_nothing_newer_nothing_is_done(tmp_path: Path) -> None:
    status, said, done = run(tmp_path, dict.fromkeys("abcd", "new"), "-y")
    assert (status, done) == (0, {}), said
    assert said.count("no package that runs hold (hold_system) has a newer version") == 4
