"""The course of a rollout: replicas that do what they are told, and some that do not."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from sparkwright.upkeep.rollout import course
from sparkwright.upkeep.rollout.course import Rollout
from sparkwright.upkeep.rollout.plan import (
    ReplicaRecord,
    Result,
    Serving,
    make_plan,
    serving_of,
    waves,
)
from sparkwright.upkeep.rollout.report import plan_lines, report, table
from sparkwright.upkeep.rollout.runs import Runs

NAMES = ("qwen",)


@dataclass
class Fleet:
    """Replicas, and what they do.

    Attributes:
        serves: the release of each; None for nothing.
        names: those of what a replica serves at first, and is to serve.
        fails: why a switch to the new release, a check or a way back fails, by "switch a".
        after: what happens to the fleet once a step is done.
        log: each step but looks, in order.
        least: how many others served during a switch, at the least.
    """

    serves: dict[str, str | None]
    forced: Collection[str] = ()
    fits: Collection[str] = ()
    pairs: Collection[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    old_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fails: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, Callable[["Fleet"], None]] = field(default_factory=dict)
    speed: float | None = None
    log: list[str] = field(default_factory=list)
    least: int = 99
    switching: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)

    def play(self, soak: float = 0) -> Rollout:
        """Make a plan, and carry it out."""
        runs = _Runs((), ())
        runs.fleet = self
        records = {
            name: ReplicaRecord(
                name,
                (f"{name}1", f"{name}2") if name in self.pairs else (name,),
                "new",
                self.names.get(name, NAMES),
                fits=name in self.fits,
            )
            for name in self.serves
        }
        plan = make_plan(records, runs.look(), self.forced)
        rollout = Rollout(records, plan, runs, soak, None, lambda line: None)
        rollout.run()
        return rollout

    def do(self, step: str, name: str, release: str | None) -> str:
        """Do a step of a replica; return why it failed."""
        self.log.append(f"{step} {name}")
        why = self.fails.get(f"{step} {name}", "")
        if step == "switch":
            self.least = min(self.least, sum(map(bool, self.serves.values())) - 1)
        if not why:
            self.serves[name] = release
        if then := self.after.get(f"{step} {name}"):
            then(self)
        return why


class _Runs(Runs):
    fleet: Fleet

    def look(self) -> Mapping[str, Serving]:
        fleet = self.fleet
        return {
            name: Serving(problem=f"{name}: no power")
            if name in fleet.silent
            else Serving(
                release,
                release,
                (2 if name in fleet.restarted else 1,),
                frozenset((fleet.names if release == "new" else fleet.old_names).get(name, NAMES))
                if release
                else frozenset(),
                switching=name in fleet.switching,
            )
            for name, release in fleet.serves.items()
        }

    def switch(
        self, records: Sequence[ReplicaRecord], minimum_speed: float | None = None
    ) -> Mapping[str, str]:
        problems = {}
        for record in records:
            step = "switch" if record.result is Result.SWITCHING else "soak"
            now = self.fleet.serves[record.replica]
            why = self.fleet.do(step, record.replica, "new" if step == "switch" else now)
            record.seconds, record.gap = 10.0, 1.0
            record.speed = self.fleet.speed
            problems |= {record.replica: why} if why else {}
        return problems

    def go_back(self, record: ReplicaRecord) -> str:
        return self.fleet.do("back", record.replica, record.previous)


def singles(letters: str, serves: str | None = "old", **changes: object) -> Fleet:
    """Replicas with names of one letter."""
    return Fleet(dict.fromkeys(letters, serves), **changes)  # type: ignore[arg-type]


def results(rollout: Rollout) -> dict[str, Result]:
    return {name: record.result for name, record in rollout.records.items()}


def becomes(name: str, release: str | None) -> Callable[[Fleet], None]:
    """Have a replica serve something else."""
    return lambda fleet: fleet.serves.update({name: release})


def test_waves_begin_with_one_and_grow() -> None:
    assert waves([]) == []
    assert waves("a") == [("a",)]
    assert waves("abcdefghi") == [("a",), ("b",), ("c", "d"), ("e", "f", "g", "h"), ("i",)]
    assert [len(wave) for wave in waves("x" * 64)] == [1, 1, 2, 4, 8, 16, 32]


def test_one_replica_at_a_time_and_each_wave_soaks() -> None:
    fleet = singles("abcd")
    rollout = fleet.play()
    assert fleet.log == [
        *("switch a", "soak a"),
        *("switch b", "soak b"),
        *("switch c", "switch d", "soak c", "soak d"),
    ]
    assert set(results(rollout).values()) == {Result.SWITCHED}
    assert fleet.least == 3
    assert rollout.stopped == ""


def test_what_serves_its_release_is_not_touched() -> None:
    fleet = singles("abc")
    fleet.serves["b"] = "new"
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a", "switch c", "soak c"]
    assert results(rollout)["b"] is Result.ALREADY
    again = fleet.play()
    assert set(results(again).values()) == {Result.ALREADY}
    assert again.waves == []


def test_a_switch_that_a_killed_run_has_begun_is_joined() -> None:
    fleet = singles("abc", after={"switch b": lambda fleet: fleet.switching.clear()})
    fleet.serves |= {"a": "new", "b": None}
    fleet.switching.add("b")
    rollout = fleet.play()
    assert fleet.log == ["switch b", "soak b", "switch c", "soak c"]
    assert rollout.stopped == ""


def test_a_failed_switch_stops_the_rollout_and_takes_its_wave_back() -> None:
    fleet = singles("abcde", fails={"switch d": "no token"})
    rollout = fleet.play()
    assert fleet.log[-3:] == ["switch c", "switch d", "back c"]
    assert results(rollout) == {
        "a": Result.SWITCHED,
        "b": Result.SWITCHED,
        "c": Result.BACK,
        "d": Result.FAILED,
        "e": Result.WAITING,
    }
    assert fleet.serves == {"a": "new", "b": "new", "c": "old", "d": "old", "e": "old"}
    assert table(rollout)[-2:] == [
        "Stopped: replica d: no token",
        "Run again to go on: a replica that serves what it should is not touched.",
    ]


def test_a_wave_that_does_not_hold_is_taken_back_the_last_first() -> None:
    fleet = singles("abcd", fails={"soak c": "too slow"}, speed=3.0)
    rollout = fleet.play()
    assert fleet.log[-2:] == ["back d", "back c"]
    assert results(rollout)["c"] is Result.FAILED
    assert results(rollout)["d"] is Result.BACK
    assert rollout.records["d"].reason == "replica c: too slow"
    assert rollout.records["c"].speed == 3.0
    assert fleet.serves == {"a": "new", "b": "new", "c": "old", "d": "old"}


@pytest.mark.parametrize(
    "change", [becomes("a", None), lambda fleet: fleet.restarted.add("a")], ids=["ends", "restarts"]
)
def test_an_engine_that_ends_in_its_soak_goes_back(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Fleet], None]
) -> None:
    fleet = singles("ab")
    monkeypatch.setattr(course.time, "sleep", lambda seconds: change(fleet))
    rollout = fleet.play(soak=300)
    assert fleet.log == ["switch a", "back a"]
    assert "vllm@new failed its soak: it ended within 0 s" in rollout.stopped
    assert results(rollout) == {"a": Result.FAILED, "b": Result.WAITING}


def test_a_way_back_that_fails_is_told() -> None:
    rollout = singles("ab", fails={"soak a": "it ended", "back a": "disk full"}).play()
    assert results(rollout)["a"] is Result.STUCK
    assert rollout.records["a"].reason == "it ended; the way back failed: disk full"
    assert "To have old serve again: sparkwright rollback --limit a" in table(rollout)


def test_a_switch_that_leaves_nothing_is_told() -> None:
    fails = {"switch a": "no token"}
    rollout = singles("ab", fails=fails, after={"switch a": becomes("a", None)}).play()
    assert results(rollout) == {"a": Result.DOWN, "b": Result.WAITING}
    assert "To have old serve again: sparkwright rollback --limit a" in table(rollout)


def test_one_that_serves_without_an_answer_is_undone() -> None:
    fails = {"switch a": "no token came"}
    fleet = singles("ab", fails=fails, after={"switch a": becomes("a", "new")})
    assert results(fleet.play()) == {"a": Result.FAILED, "b": Result.WAITING}
    assert fleet.log == ["switch a", "back a"]


def test_a_pair_of_which_one_has_switched_is_undone() -> None:
    fails = {"switch a": "no link"}
    fleet = singles("ab", pairs="a", fails=fails, after={"switch a": becomes("a", None)})
    assert results(fleet.play()) == {"a": Result.FAILED, "b": Result.WAITING}
    assert fleet.log == ["switch a", "back a"]


@pytest.mark.parametrize("step", ["switch b", "soak b"])
def test_an_earlier_wave_that_dies_later_goes_back_as_well(step: str) -> None:
    fleet = singles("abc" if step == "switch b" else "ab", after={step: becomes("a", None)})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a", "switch b", "soak b", "back a"]
    assert results(rollout)["a"] is Result.FAILED
    assert results(rollout)["b"] is Result.SWITCHED
    assert "does no more" in rollout.stopped


@pytest.mark.parametrize(
    ("change", "result", "said"),
    [
        (becomes("c", None), Result.REFUSED, "it served when the rollout began, and does no more"),
        (lambda fleet: fleet.silent.add("c"), Result.LOST, "c: no power"),
    ],
)
def test_no_turn_begins_while_another_replica_is_down(
    change: Callable[[Fleet], None], result: Result, said: str
) -> None:
    fleet = singles("abc", after={"soak a": change})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a"]
    assert results(rollout) == {"a": Result.SWITCHED, "b": Result.WAITING, "c": result}
    assert rollout.stopped == f"replica c: {said}"


def test_a_replica_changed_by_hand_is_left_alone() -> None:
    fleet = singles("abc", after={"soak a": becomes("b", "mine")})
    rollout = fleet.play()
    assert "switch b" not in fleet.log
    assert fleet.serves["b"] == "mine"
    assert "found mine" in rollout.stopped
    assert "expected old as when the rollout began, or new" in rollout.stopped


def test_a_replica_that_somebody_else_has_switched_meanwhile_is_done() -> None:
    fleet = singles("abc", after={"soak a": becomes("b", "new")})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a", "switch c", "soak c"]
    assert results(rollout)["b"] is Result.ALREADY


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, True),
        ({"forced": ["a"]}, False),
        ({"fits": ["a"]}, False),
        ({"serves": None}, False),
    ],
)
def test_nobody_is_left_with_nothing(changes: dict[str, object], refused: bool) -> None:
    fleet = singles("a", **changes)  # type: ignore[arg-type]
    rollout = fleet.play()
    assert (results(rollout)["a"] is Result.REFUSED) is refused
    assert bool(fleet.log) is not refused
    if refused:
        (line,) = plan_lines([*rollout.records.values()], rollout.waves)
        assert "no other replica of this run serves a model" in line
        assert "--force a" in line


def test_a_model_that_no_other_replica_serves_counts() -> None:
    """Every replica stays as it is, also those that could switch."""
    names = {"c": ("qwen", "coder")}
    fleet = singles("abc", names=names, old_names=names)
    rollout = fleet.play()
    assert fleet.log == []
    assert results(rollout)["c"] is Result.REFUSED
    assert "serves model coder" in rollout.stopped


def test_names_that_the_inventory_gives_up_may_go() -> None:
    fleet = singles("ab", old_names=dict.fromkeys("ab", ("qwen-old",)))
    assert set(results(fleet.play()).values()) == {Result.SWITCHED}


@pytest.mark.parametrize("state", ["silent", "switching"])
def test_a_spark_lost_in_its_switch_counts_as_lost(state: str) -> None:
    def lose(fleet: Fleet) -> None:
        getattr(fleet, state).add("a")

    fleet = singles("ab", fails={"switch a": "no result"}, after={"switch a": lose})
    rollout = fleet.play()
    assert fleet.log == ["switch a"]
    assert results(rollout) == {"a": Result.LOST, "b": Result.WAITING}


def test_a_pair_serves_what_both_serve() -> None:
    row = {"spark": "a", "answers": True, "state": "active", "up_since": 1, "switches": []}
    head, worker = row | {"release": "x", "models": ["m"]}, row | {"release": "x", "models": []}
    assert serving_of([head, worker]) == Serving("x", "x", (1, 1), frozenset({"m"}))
    assert serving_of([head, worker | {"release": "y"}]).release is None
    assert serving_of([head, worker | {"state": "failed"}]).release is None
    assert serving_of([head, worker | {"switches": ["y"]}]).switching
    silent = {"spark": "b", "answers": False, "warnings": ["no power"]}
    assert serving_of([head, silent]) == Serving(problem="b: no power")


def test_the_report_is_whole_at_any_time() -> None:
    rollout = singles("abc", fails={"switch b": "no token"}).play()
    told = json.loads(json.dumps(report(rollout, "T0", "T1")))
    assert told["stopped"] == "replica b: no token"
    assert told["waves"] == [["a"], ["b"], ["c"]]
    assert [each["result"] for each in told["replicas"]] == [
        "switched",
        "failed, the previous release serves",
        "not reached",
    ]
    assert told["replicas"][1]["seconds"] == 10.0
    lines = table(rollout)
    assert [line.split()[0] for line in lines] == ["replica", "a", "b", "c", "Stopped:", "Run"]
    assert lines[3].split() == ["c", "3", "not", "reached"]


def test_the_plan_is_told_before() -> None:
    fleet = singles("ab")
    fleet.serves["b"] = "new"
    rollout = fleet.play()
    assert plan_lines([*rollout.records.values()], rollout.waves) == [
        "wave 1 of 1: a (old -> new)",
        "serves it already: b",
    ]
