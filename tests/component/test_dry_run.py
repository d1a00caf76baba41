"""A dry run: what it shows, and that it leaves nothing; runs of pairs. pyinfra on fake hosts."""

import re
from pathlib import Path

import pytest

from tests.component import command_line
from tests.component.command_line import Ended, fake_hosts

# A run for real is to say the same as a dry run does.
BOTH = pytest.mark.parametrize("options", [["--dry"], ["--json"]])
THREE = fake_hosts(sparks={n: {"spark": n, "replica": n, "ranks": [n]} for n in "abc"})
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


def _run(folder: Path, unfit: str, *options: str, same: str = "") -> Ended:
    head = f"UNFIT = {unfit!r}\nMACHINES = {dict.fromkeys(same, '1')}\n"
    return command_line.run(folder, *options, inventory=THREE, deploy=head + DEPLOY)


@BOTH
def test_it_ends_after_the_preflight_of_all_where_a_run_would(
    tmp_path: Path, options: list[str]
) -> None:
    said = _run(tmp_path, "ac", *options).failed("preflight failed: a and c. A run would end here")
    for words in ("found 1 GiB; expected 100", "found none; expected one", "found an odd one"):
        assert said.count(words) == 1
    assert not list(tmp_path.glob("*-went-on"))


@BOTH
def test_a_machine_under_two_names_is_one_too_many(tmp_path: Path, options: list[str]) -> None:
    said = _run(tmp_path, "", *options, same="ac").failed("of the two out of inventory/sparks.yaml")
    assert re.search("error: (c is the same machine as a|a is the same machine as c)", said)


def test_with_few_at_a_time_each_of_the_unfit_ends_it(tmp_path: Path) -> None:
    _run(tmp_path, "abc", "--dry", "--parallel", "1").failed("preflight failed: ")
    _run(tmp_path, "", "--dry", "--parallel", "1", same="b").succeeded()


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


@BOTH
def test_what_stops_a_later_operation_is_shown_and_fails_it(
    tmp_path: Path, options: list[str]
) -> None:
    data = {"spark": "a", "ranks": ["a"], "root": str(tmp_path)}
    inventory = f'hosts = [("@local", {data})]\n'
    (tmp_path / "bin").touch()
    run = command_line.run(tmp_path, *options, inventory=inventory, deploy=BLOCKED)
    said = run.failed("Folders: a run would fail here:")
    assert said.count("bin is no directory") == 1
    assert "Others: a run would fail" not in said
    assert not (tmp_path / "link").exists()
    # What does not fail ends as it did.
    command_line.run(tmp_path, *options, deploy=BLOCKED.replace("bin", "jobs")).succeeded()


def _serving(replica: str | None, *ranks: str) -> dict[str, dict[str, object]]:
    """Return the hosts of a replica, or of none, on which the command `fail` fails."""
    data: dict[str, object] = {"replica": replica, "ranks": [*ranks] if replica else None}
    data["fake_responses"] = {"fail": {"success": False}}
    return {name: {"spark": name, **data} for name in sorted(ranks)}


# Two pairs, a Spark on its own, and an idle one.
PAIRS = fake_hosts(
    big=_serving("big", "spark-a", "spark-b"),
    wide=_serving("wide", "spark-d", "spark-c"),
    chat=_serving("chat", "spark-e") | _serving(None, "spark-f"),
)
STEPS = """
from pyinfra import host
from pyinfra.operations import server
from sparkwright.run.session import start_session

start_session()
server.shell(name="First", commands=["fail" if host.data.spark == FAILING else "true"])
server.shell(name="Second", commands=["true"])
"""


def _run_pairs(folder: Path, *options: str, failing: str = "") -> Ended:
    words = ("-y", "--fail-percent", "0", *options)
    deploy = f"FAILING = {failing!r}\n{STEPS}"
    return command_line.run(folder, *words, inventory=PAIRS, deploy=deploy)


@pytest.mark.parametrize(
    "options",
    [["--parallel", "3"], ["--limit", "big"], ["--limit", "chat", "--parallel", "1"]],
)
def test_whole_pairs_run_pairs(tmp_path: Path, options: list[str]) -> None:
    _run_pairs(tmp_path, *options).succeeded("Second")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--limit", "@fake/spark-b", "--limit", "chat"], "replica big: only spark-b is in this "),
        (["--exclude", "@fake/spark-c"], "--limit wide takes all of them, --exclude wide none"),
        (["--limit", "big", "--parallel", "1"], "found --parallel 1; expected at least 2"),
        (["--parallel", "2"], "found --parallel 2; expected at least 3"),
    ],
)
def test_what_parts_a_pair_is_refused(tmp_path: Path, options: list[str], problem: str) -> None:
    assert "First" not in _run_pairs(tmp_path, *options).failed(problem)


def test_to_go_on_leaves_out_both_sparks_of_a_pair(tmp_path: Path) -> None:
    _run_pairs(tmp_path, failing="spark-b").failed(
        "spark-b failed at: First",
        "Not done on any Spark: Second",
        "To go on without replica big: pyinfra",
        "deploy.py --exclude big\n",
    )
    _run_pairs(tmp_path, "--exclude", "big", failing="spark-b").succeeded()
