"""The runs of a rollout: what pyinfra is given, what they do on a Spark, how answers are read."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.upkeep.rollout import deploy, runs
from sparkwright.upkeep.rollout.plan import ReplicaRecord, Serving
from sparkwright.upkeep.rollout.rollout import roll_out
from sparkwright.upkeep.rollout.runs import Runs
from tests.makers.engine import NEW, SETTINGS, SETTLED, spark
from tests.makers.refused import refused
from tests.unit.driven import Driven

RUNS = Runs(["--limit", "a"], ["--data", "trial_seconds=3"])
PAIR = ReplicaRecord("a", ("one", "two"), "new", ("m",), previous="old")
ROW = {"answers": True, "state": "active", "release": "new", "models": ["m"], "switches": []}
ROW |= {"on_demand": False, "last_served": "new"}

Answer = Callable[[list[str]], tuple[int, str]]
# Has a function stand for pyinfra; returns the words of each run.
StandIn = Callable[[Answer], list[list[str]]]


@pytest.fixture
def pyinfra(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr(runs, "RETRY", 0)

    def stand_in(answer: Answer) -> list[list[str]]:
        seen: list[list[str]] = []

        def run(program: list[str], **options: Any) -> CompletedProcess[str]:
            assert program[0].endswith("/pyinfra")
            assert program[1] == "inventory.py"
            seen.append(program[2:])
            return CompletedProcess(program, *answer(program[2:]), stderr="no power")

        monkeypatch.setattr(subprocess, "run", run)
        return seen

    return stand_in


def tells(*answers: dict[str, object], status: int = 0) -> Answer:
    """Return a run that writes these answers."""

    def run(words: list[str]) -> tuple[int, str]:
        Path(words[1]).write_text("".join(f"{json.dumps(each)}\n" for each in answers))
        return status, ""

    return run


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([{"rank": 0, "reason": "no token"}, {"rank": 1, "reason": ""}], "no token"),
        ([{"rank": 1, "reason": "no link"}, {"rank": 0, "reason": "b: no link"}], "b: no link; "),
        ([{"rank": 0, "reason": ""}], "its run ended without a result"),
        ([], "its run ended without a result"),
    ],
)
def test_why_a_switch_failed_is_told(
    pyinfra: StandIn, answers: list[dict[str, object]], reason: str
) -> None:
    more = {"replica": "a", "seconds": 0, "gap": 0, "beside": False, "speed": None}
    pyinfra(tells(*(each | more for each in answers), status=1))
    assert RUNS.switch([PAIR])["a"].startswith(reason)


def test_what_serves_is_what_status_reads(pyinfra: StandIn) -> None:
    rows: list[dict[str, object]] = [
        ROW | {"spark": "two", "replica": "a", "rank": 1, "up_since": 2},
        ROW | {"spark": "one", "replica": "a", "rank": 0, "up_since": 1},
        {"spark": "idle", "replica": None, "rank": None, "answers": True, "warnings": []},
    ]
    seen = pyinfra(lambda _: (1, json.dumps({"sparks": rows})))
    assert RUNS.look() == {"a": Serving("new", "new", (1, 2), frozenset({"m"}))}
    end = ["--limit", "a", "--data", "trial_seconds=3"]
    assert seen == [["deploys/status.py", "--data", "json=-", *end]]
    rows[2]["answers"] = False
    seen = pyinfra(lambda _: (1, json.dumps({"sparks": rows})))
    assert RUNS.look()["a"].release == "new"
    assert len(seen) == 3
    pyinfra(lambda _: (1, ""))
    with pytest.raises(PlanError, match="what serves cannot be read:\nno power"):
        RUNS.look()


def test_the_way_back_names_the_release(pyinfra: StandIn) -> None:
    seen = pyinfra(lambda _: (0, ""))
    assert RUNS.go_back(PAIR) == RUNS.go_back(ReplicaRecord("b", ("c",), "new", ())) == ""
    assert seen[0][:4] == ["sparkwright.upkeep.rollback.deploy.to", "old", "-y", "--limit=a"]
    assert seen[1][:3] == ["deploys/stop.py", "-y", "--limit=b"]
    pyinfra(lambda _: (1, ""))
    assert "see above" in RUNS.go_back(PAIR)


def test_an_interrupted_run_ends_the_rollout(pyinfra: StandIn) -> None:
    before = signal.getsignal(signal.SIGINT)
    pyinfra(lambda _: (130, ""))
    with pytest.raises(KeyboardInterrupt):
        RUNS.look()
    assert signal.getsignal(signal.SIGINT) is before


FLEET = """\
sparks: {one: {hardware: gb10, ssh_hostname: 10.0.0.1}}
replicas: {chat: {recipe: lab-tiny, sparks: [one]}}
"""
INTENT = {"replica": "chat", "rank": 0, "release": "new", "models": ["m"], "fits": False}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site of one Spark."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/sparks.yaml").write_text(FLEET)
    monkeypatch.delenv("SPARKWRIGHT_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("dry", "forced", "release", "status", "is_written"),
    [
        (True, [], "old", 1, False),
        (False, [], "old", 1, True),
        (True, ["chat"], "old", 0, False),
        (True, [], "new", 0, False),
        (False, [], "new", 0, True),
    ],
)
def test_a_refusal_is_told_before_anything_begins(
    pyinfra: StandIn,
    site: Path,
    dry: bool,
    forced: list[str],
    release: str,
    status: int,
    is_written: bool,
) -> None:
    row = ROW | {"spark": "one", "replica": "chat", "rank": 0, "up_since": 1, "release": release}

    def answer(words: list[str]) -> tuple[int, str]:
        if words[0] == "sparkwright.deploy.prepare":
            return tells(INTENT)(words)
        return 0, json.dumps({"sparks": [row]})

    seen = pyinfra(answer)
    assert roll_out(RUNS, 0, None, forced, dry=dry, yes=not dry) == status
    assert not any("switch" in words[0] for words in seen)
    assert seen[0][2] == ("--dry" if dry else "-y")
    reports = [*site.glob("rollouts/*.json")]
    assert bool(reports) is is_written
    if is_written:
        found = json.loads(reports[0].read_text())
        assert found["ended"]
        assert found["replicas"][0]["result"] == ("refused" if status else "serves it already")


def test_who_is_forced_is_a_replica(site):
    found = refused(roll_out, RUNS, 0, None, ["chaat"], dry=True, yes=False)
    assert found == ("--force: found 'chaat'; did you mean 'chat'?",)


OWN = SimpleNamespace(
    replica="chat", rank=0, is_head=True, peers=[], place="/opt/x", release=NEW, on_demand=False
)


@pytest.fixture(autouse=True)
def known_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "switch_settings", lambda own, release: SETTINGS)


def switched(driven: Driven, file: Path, least: float | None = None) -> tuple[Any, dict[str, Any]]:
    """Switch, and return the result and the answer."""
    result = driven.run(deploy.switched, own=OWN, answers=str(file), least=least)
    (line,) = file.read_text().splitlines()
    return result, json.loads(line)


@pytest.mark.parametrize(
    ("measured", "least", "reason"),
    [
        (41.5, None, ""),
        (41.5, 40.5, ""),
        (41.5, 42, "found 41.5 tokens a second in one stream; expected at least 42"),
        (None, 1, "no speed could be measured: refused"),
    ],
)
def test_a_speed_is_told_and_judged(
    tmp_path: Path, measured: float | None, least: float | None, reason: str
) -> None:
    driven = spark(SETTLED)
    driven.state = {
        **(driven.state or {}),
        "engine_api.speed": {"speed": measured, "said": "refused"},
    }
    result, told = switched(driven, tmp_path / "answers", least)
    assert result.did_succeed() is not bool(reason)
    speed = measured if least else None
    assert (told["reason"], told["speed"], told["seconds"]) == (reason, speed, 0.0)
