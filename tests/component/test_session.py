"""What a run says of pairs, by pyinfra's own command line on fake hosts."""

from pathlib import Path

import pytest

from tests.component import command_line

# Two pairs, a Spark on its own, and an idle one.
INVENTORY = """
def _spark(name, replica, ranks):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {"fail": {"success": False}},
        "spark": name, "replica": replica, "ranks": ranks,
    }

big = [_spark(name, "big", ["spark-a", "spark-b"]) for name in ("spark-a", "spark-b")]
wide = [_spark(name, "wide", ["spark-d", "spark-c"]) for name in ("spark-c", "spark-d")]
chat = [_spark("spark-e", "chat", ["spark-e"]), _spark("spark-f", None, None)]
"""
DEPLOY = """
from pyinfra import host
from pyinfra.operations import server
from sparkwright.run.session import start_session

start_session()
server.shell(name="First", commands=["fail" if host.data.spark == FAILING else "true"])
server.shell(name="Second", commands=["true"])
"""


def _run(folder: Path, *options: str, failing: str = "") -> tuple[int, str]:
    (folder / "inventory.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(f"FAILING = {failing!r}\n{DEPLOY}")
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
def test_whole_pairs_run(tmp_path: Path, options: list[str]) -> None:
    status, said = _run(tmp_path, *options)
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
    status, said = _run(tmp_path, *options)
    assert status == 1
    assert problem in said
    assert "First" not in said


def test_to_go_on_leaves_out_both_sparks_of_a_pair(tmp_path: Path) -> None:
    status, said = _run(tmp_path, failing="spark-b")
    assert status == 1
    assert "spark-b failed at: First" in said
    assert "Not done on any Spark: Second" in said
    assert "To go on without replica big: pyinfra" in said
    assert "deploy.py --exclude big\n" in said
    status, said = _run(tmp_path, "--exclude", "big", failing="spark-b")
    assert status == 0, said


@pytest.mark.parametrize(
    ("failing", "options", "remedy"),
    [
        ("spark-e", [], "To go on without this Spark: pyinfra"),
        ("spark-a", ["--exclude", "chat", "--exclude", "wide"], ""),
    ],
)
def test_to_go_on_leaves_out_one_spark_on_its_own(
    tmp_path: Path, failing: str, options: list[str], remedy: str
) -> None:
    """A pair alone has nobody to go on with."""
    _, said = _run(tmp_path, *options, failing=failing)
    assert f"{failing} failed at: First" in said
    assert remedy in said
    assert ("To go on" in said) == bool(remedy)
    assert ("deploy.py --exclude @fake/spark-e\n" in said) == bool(remedy)
