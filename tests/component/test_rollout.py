"""A rollout by pyinfra's own command line, on fake hosts: what serves is a file of the test's."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clock import patience
from tests.component import command_line
from tests.component.servers import until

# Three Sparks on their own, a pair, and an idle one.
INVENTORY = """
def _spark(name, replica, ranks):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {
            "lost": {"success": False}, ">&2; exit 1": {"success": False},
        },
        "spark": name, "replica": replica, "ranks": ranks,
        "rank": ranks.index(name) if ranks else None,
    }

one = [_spark(name, name, [name]) for name in ("a", "b", "c")]
big = [_spark(name, "big", ["d", "e"]) for name in ("d", "e")]
rest = [_spark("f", None, None)]
"""
# Stand-ins for what a host does: each switch is a line of a log, and a change of a file.
DEPLOY = """
import json
import time
from pathlib import Path
from types import SimpleNamespace
from pyinfra import host, state
from pyinfra.api import StringCommand
from sparkwright.engine.facts import Engines
from sparkwright.rollout.facts import ServingRelease, Speed
from sparkwright.rollout import operations as rollout
from sparkwright.common.local_file import write_file
from sparkwright.rollout.serving import ServingState
from sparkwright.run.options import check_force, options_of
from sparkwright.run.session import start_session
from sparkwright.rollout import deploy as step

HERE = Path(__file__).parent
FAILS = json.loads((HERE / "fails.json").read_text())
spark = host.data.spark

def serves(new=None):
    file = HERE / "serves.json"
    now = json.loads(file.read_text())
    if new:
        write_file(file, json.dumps(now | {host.data.spark: new}))
    return now[host.data.spark]

def log(word):
    with (HERE / "log").open("a") as file:
        file.write(f"{word} {host.data.spark}\\n")

def begun(sparks):
    lines = (HERE / "log").read_text().splitlines()
    return all(f"switch {spark}" in lines for spark in sparks)

def read(fact, **arguments):
    if fact is ServingRelease:
        return ServingState(serves(), "invocation of " + serves(), frozenset({"qwen"}))
    return {Engines: "asked", Speed: "41.5"}.get(fact)

def attempt(release, settings, peer, outcome):
    fails = FAILS.get(host.data.spark)
    yield StringCommand("switch" if fails != "lost" else "lost")
    log("switch")
    # The two of a pair switch together; what lasts is not over before the run is.
    while fails == "lasts" or not begun(host.data.ranks):
        time.sleep(0.02)
    outcome.attempted, outcome.previous, outcome.seconds = True, serves(), 0.2
    if fails == "switch":
        outcome.reason, outcome.restored = "no token came", True
        return
    serves("new")
    outcome.served = True

def go_back(root, settings, peer, outcome):
    yield StringCommand("back")
    log("back")
    serves(outcome.previous)
    outcome.taken_back = True

rollout.attempt, rollout.go_back, rollout._read = attempt, go_back, read
rollout.problem = lambda engines, names, answers: FAILS.get("problem")
rollout.REPORTS = HERE / "rollouts"
start_session()
step._check_run()
replicas = {each.data.replica for each in state.active_hosts if each.data.replica}
recipe = SimpleNamespace(models=["qwen"], served_names=["qwen"], answers="chat")
ranks = SimpleNamespace(rank=host.data.rank)
release = SimpleNamespace(id="new", place="/r", url="http://x", recipe=recipe, ranks=ranks)
asked = options_of({"soak": 0} | host.data.dict())
check_force(asked.force, replicas)
if host.data.replica:
    rollout.waves(
        name="Waves",
        release=release,
        settings=None,
        asked=asked,
        peer=None,
    )
"""


@dataclass(frozen=True)
class Run:
    """One run: its exit status, all it said, and the report that it wrote."""

    status: int
    said: str
    report: dict[str, Any]

    def results(self) -> dict[str, str]:
        return {each["replica"]: each["result"] for each in self.report["replicas"]}


@dataclass(frozen=True)
class Project:
    """A folder with an inventory, a deploy, and what its hosts serve."""

    folder: Path

    def start(self, *options: str, **fails: str) -> "subprocess.Popen[str]":
        (self.folder / "fails.json").write_text(json.dumps(fails))
        for old in self.folder.glob("rollouts/*.json"):
            old.unlink()
        return command_line.start(self.folder, "--fail-percent", "0", *(options or ["-y"]))

    def run(self, *options: str, **fails: str) -> Run:
        with self.start(*options, **fails) as process:
            said, _ = process.communicate(timeout=patience())
        return Run(process.returncode, said, self.report())

    def report(self) -> dict[str, Any]:
        """Return what the last run has written; empty for nothing."""
        found = list(self.folder.glob("rollouts/*.json"))
        report: dict[str, Any] = json.loads(found[0].read_text()) if found else {}
        return report

    def log(self) -> list[str]:
        """What was done since the last look."""
        file = self.folder / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def serves(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "serves.json").read_text())
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "deploy.py").write_text(DEPLOY)
    (tmp_path / "serves.json").write_text(json.dumps(dict.fromkeys("abcde", "old")))
    return Project(tmp_path)


def test_replicas_switch_in_waves_and_a_second_run_does_nothing(project: Project) -> None:
    run = project.run()
    assert run.status == 0, run.said
    done = project.log()
    # One replica after the other, the two of a pair at one time.
    assert done[:3] == ["switch a", "switch b", "switch c"]
    assert sorted(done[3:]) == ["switch d", "switch e"]
    assert set(run.results().values()) == {"switched"}
    assert run.report["ended"]
    assert "wave 3 of 3: c (old -> new), big (old -> new)" in run.said
    assert "The report: rollouts/" in run.said
    again = project.run()
    assert again.status == 0
    assert project.log() == []
    assert set(again.results().values()) == {"serves it already"}
    assert again.said.count("] No changes") == 5


def test_a_fleet_of_64_takes_no_time_of_its_own(project: Project) -> None:
    """Its Sparks look at one another before each switch: each look takes no more than it must."""
    names = [f"s{number:02}" for number in range(64)]
    fleet = f"[_spark(name, name, [name]) for name in {names}]"
    (project.folder / "inventory.py").write_text(
        INVENTORY.replace("one = ", f"one = {fleet}\n_ = ")
    )
    (project.folder / "serves.json").write_text(json.dumps(dict.fromkeys([*names, *"de"], "old")))
    begun = time.monotonic()
    run = project.run("-y", "--limit", "one", "--parallel", "70")
    assert run.status == 0, run.said
    assert project.log() == [f"switch {name}" for name in names]
    assert [len(wave) for wave in run.report["waves"]] == [1, 1, 2, 4, 8, 16, 32]
    # A clock of a second between two steps of one would be three minutes.
    assert time.monotonic() - begun < patience(60)


def test_a_failure_takes_its_wave_back_before_any_host_fails(project: Project) -> None:
    run = project.run("-y", "--limit", "one", "--limit", "big", e="switch", d="switch")
    assert run.status == 1
    assert project.log()[2:] in (
        ["switch c", "switch d", "switch e", "back c"],
        ["switch c", "switch e", "switch d", "back c"],
    )
    assert project.serves() == {"a": "new", "b": "new", "c": "old", "d": "old", "e": "old"}
    assert run.results() == {
        "a": "switched",
        "b": "switched",
        "c": "taken back",
        "big": "failed, the previous release serves",
    }
    assert "Stopped: replica big: no token came" in run.said
    assert "continue with: pyinfra" in run.said
    # The cause is gone: the next run goes on with the rest.
    run = project.run()
    assert run.status == 0, run.said
    assert [line for line in project.log() if line[-1] in "ab"] == []
    assert set(project.serves().values()) == {"new"}


@pytest.mark.parametrize(
    ("options", "fails", "reason"),
    [
        ([], {"problem": "no token came"}, "vllm@new is active, but no token came"),
        (
            ["--data", "minimum_speed=1000000"],
            {},
            "found 41.5 tokens a second in one stream; expected at least 1000000",
        ),
    ],
)
def test_a_canary_that_does_not_deliver_goes_back(
    project: Project, options: list[str], fails: dict[str, str], reason: str
) -> None:
    run = project.run("-y", *options, **fails)
    assert run.status == 1
    assert project.log() == ["switch a", "back a"]
    assert set(project.serves().values()) == {"old"}
    assert run.report["stopped"] == f"replica a: {reason}"
    assert run.results()["a"] == "failed, the previous release serves"


def test_a_speed_that_is_asked_for_is_reported(project: Project) -> None:
    run = project.run("-y", "--data", "minimum_speed=40.5")
    assert run.status == 0, run.said
    assert {each["speed"] for each in run.report["replicas"]} == {41.5}


def test_a_killed_run_is_continued(project: Project) -> None:
    with project.start(b="lasts") as process:
        until(lambda: project.serves()["a"] == "new")
        process.kill()
    killed = project.report()
    assert killed["ended"] is None
    project.log()
    run = project.run()
    assert run.status == 0, run.said
    assert "switch a" not in project.log()
    assert run.results()["a"] == "serves it already"
    assert set(project.serves().values()) == {"new"}


def test_a_spark_that_is_lost_in_its_switch_ends_the_rollout(project: Project) -> None:
    run = project.run(b="lost")
    assert run.status == 1
    assert project.log() == ["switch a"]
    assert run.results() == {
        "a": "switched",
        "b": "no connection",
        "c": "not reached",
        "big": "not reached",
    }
    assert run.report["ended"]
    assert "Stopped: replica b: the Spark stopped responding" in run.said


def test_planning_tells_the_waves_and_changes_nothing(project: Project) -> None:
    run = project.run("--dry")
    assert run.status == 0, run.said
    assert "wave 1 of 3: a (old -> new)" in run.said
    assert project.log() == []
    assert not (project.folder / "rollouts").exists()


def test_one_replica_alone_is_refused_unless_it_is_named(project: Project) -> None:
    dry = project.run("--dry", "--limit", "@fake/a")
    assert dry.status == 1
    assert "Waves: a run would fail here:" in dry.said
    assert "--data force=a" in dry.said
    run = project.run("-y", "--limit", "@fake/a")
    assert run.status == 1
    assert "--data force=a" in run.said
    assert project.log() == []
    assert run.results() == {"a": "refused"}
    assert project.run("-y", "--limit", "@fake/a", "--data", "force=a").status == 0
    assert project.log() == ["switch a"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--exclude", "big", "--serial"], "rollout: found --serial; expected it left out"),
        (["--exclude", "big", "--parallel", "2"], "found --parallel 2; expected at least 4"),
        (["--data", "force=x"], "--data force: found 'x'; expected one of a, b, big, c"),
    ],
)
def test_what_cannot_be_is_refused_before_any_host(
    project: Project, options: list[str], problem: str
) -> None:
    run = project.run("-y", *options)
    assert run.status == 1
    assert problem in run.said
    assert project.log() == []
