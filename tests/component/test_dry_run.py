"""A dry run: what it shows, and that it leaves nothing; runs of pairs. pyinfra on fake hosts."""

import re
from pathlib import Path

import pytest

from tests.component import command_line

INVENTORY = """
def _spark(name):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "spark": name, "replica": name, "ranks": [name],
    }

sparks = [_spark(name) for name in ("a", "b", "c")]
"""
# What is found of a Spark is the test's; that a deploy goes on after the preflight, a file tells.
DEPLOY = """
from pathlib import Path
from types import SimpleNamespace
from pyinfra import host
from sparkwright.machine.preflight import deploy as preflight
from sparkwright.common.errors import Finding
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.fleet.settings import Settings
from sparkwright.machine.preflight.requirements import Requirements
from sparkwright.run.session import start_session

preflight.read = lambda spark, _: SimpleNamespace(
    machine=MACHINES.get(spark.data.spark), memory=0, kernel=SimpleNamespace(handover=0)
)
preflight.findings = lambda *_: FOUND.get(host.data.spark, [])
FOUND = {
    "a": [Finding(True, "found 1 GiB; expected 100", "Buy some.")],
    "c": [Finding(True, "found none; expected one", "Set it.")],
    "b": [Finding(False, "found an odd one; expected another", "Rename it.")],
}
FOUND = {name: found for name, found in FOUND.items() if name in UNFIT + "b"}

preflight.target = lambda: SimpleNamespace(fleet="inventory/sparks.yaml", root="/r")
start_session()
preflight.preflight(
    name="Fit to serve",
    wanted=[Requirements(HARDWARE["gb10"], Settings())],
)
(Path(__file__).parent / f"{host.data.spark}-went-on").touch()
"""


def _run(folder: Path, unfit: str, *options: str, same: str = "") -> tuple[int, str]:
    (folder / "inventory.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(
        f"UNFIT = {unfit!r}\nMACHINES = {dict.fromkeys(same, '1')}\n{DEPLOY}"
    )
    status, said = command_line.run(folder, *options)
    assert "Traceback" not in said, said
    return status, said


@pytest.mark.parametrize("options", [["--dry"], ["--dry", "-y"], ["--dry", "--json"], ["--json"]])
def test_it_ends_after_the_preflight_of_all_where_a_run_would(
    tmp_path: Path, options: list[str]
) -> None:
    status, said = _run(tmp_path, "ac", *options)
    assert status == 1, said
    for words in ("found 1 GiB; expected 100", "found none; expected one", "found an odd one"):
        assert said.count(words) == 1
    assert "preflight failed: a and c. A run would end here" in said
    assert not list(tmp_path.glob("*-went-on"))


@pytest.mark.parametrize("options", [["--dry"], ["--json"]])
def test_a_machine_under_two_names_is_one_too_many(tmp_path: Path, options: list[str]) -> None:
    status, said = _run(tmp_path, "", *options, same="ac")
    assert status == 1, said
    assert re.search("error: (c is the same machine as a|a is the same machine as c)", said)
    assert "Take one of the two out of inventory/sparks.yaml" in said
    assert _run(tmp_path, "", *options, same="b")[0] == 0


def test_with_few_at_a_time_each_of_the_unfit_ends_it(tmp_path: Path) -> None:
    status, said = _run(tmp_path, "abc", "--dry", "--parallel", "1")
    assert status == 1
    assert "preflight failed: " in said


# A file lies where the first operation wants a folder; nothing is in the second one's way.
BLOCKED = """
from pathlib import Path
from sparkwright.run import session
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.common.files import Directory

HERE = Path(__file__).resolve().parent
# Whether this machine has sudo matters to nobody.
session.check_sudo = lambda _: None
session.start_session()
managed_files(name="Folders", entries=[Directory(str(HERE / "bin"))])
managed_files(name="Others", entries=[Directory(str(HERE / "link"))])
"""


@pytest.mark.parametrize("options", [["--dry"], ["--dry", "-y"], ["--dry", "--json"], ["--json"]])
def test_what_stops_a_later_operation_is_shown_and_fails_it(
    tmp_path: Path, options: list[str]
) -> None:
    data = {"spark": "a", "ranks": ["a"], "root": str(tmp_path)}
    (tmp_path / "inventory.py").write_text(f'hosts = [("@local", {data})]\n')
    (tmp_path / "deploy.py").write_text(BLOCKED)
    (tmp_path / "bin").touch()
    status, said = command_line.run(tmp_path, *options)
    assert status == 1, said
    assert "Folders: a run would fail here:" in said
    assert said.count("bin is no directory") == 1
    assert "Others: a run would fail" not in said
    assert not (tmp_path / "link").exists()
    # What does not fail ends as it did.
    (tmp_path / "deploy.py").write_text(BLOCKED.replace("bin", "jobs"))
    status, said = command_line.run(tmp_path, *options)
    assert status == 0, said


# Two pairs, a Spark on its own, and an idle one.
PAIRS = """
def _spark(name, replica, ranks):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {"fail": {"success": False}},
        "spark": name, "replica": replica, "ranks": ranks,
    }

big = [_spark(name, "big", ["spark-a", "spark-b"]) for name in ("spark-a", "spark-b")]
wide = [_spark(name, "wide", ["spark-d", "spark-c"]) for name in ("spark-c", "spark-d")]
chat = [_spark("spark-e", "chat", ["spark-e"]), _spark("spark-f", None, None)]
"""
STEPS = """
from pyinfra import host
from pyinfra.operations import server
from sparkwright.run.session import start_session

start_session()
server.shell(name="First", commands=["fail" if host.data.spark == FAILING else "true"])
server.shell(name="Second", commands=["true"])
"""


def _run_pairs(folder: Path, *options: str, failing: str = "") -> tuple[int, str]:
    (folder / "inventory.py").write_text(PAIRS)
    (folder / "deploy.py").write_text(f"FAILING = {failing!r}\n{STEPS}")
    return command_line.run(folder, "-y", "--fail-percent", "0", *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--parallel", "3"],
        ["--limit", "big"],
        ["--limit", "@fake/spark-a", "--limit", "@fake/spark-b"],
        ["--limit", "chat", "--parallel", "1"],
    ],
)
def test_whole_pairs_run_pairs(tmp_path: Path, options: list[str]) -> None:
    status, said = _run_pairs(tmp_path, *options)
    assert status == 0, said
    assert "Second" in said


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--limit", "@fake/spark-b", "--limit", "chat"], "replica big: only spark-b is in this "),
        (["--exclude", "@fake/spark-c"], "--limit wide takes both, --exclude wide neither"),
        (["--limit", "big", "--parallel", "1"], "found --parallel 1; expected at least 2"),
        (["--parallel", "2"], "found --parallel 2; expected at least 3"),
    ],
)
def test_what_parts_a_pair_is_refused(tmp_path: Path, options: list[str], problem: str) -> None:
    status, said = _run_pairs(tmp_path, *options)
    assert status == 1
    assert problem in said
    assert "First" not in said


def test_to_go_on_leaves_out_both_sparks_of_a_pair(tmp_path: Path) -> None:
    status, said = _run_pairs(tmp_path, failing="spark-b")
    assert status == 1
    assert "spark-b failed at: First" in said
    assert "Not done on any Spark: Second" in said
    assert "To go on without replica big: pyinfra" in said
    assert "deploy.py --exclude big\n" in said
    status, said = _run_pairs(tmp_path, "--exclude", "big", failing="spark-b")
    assert status == 0, said
