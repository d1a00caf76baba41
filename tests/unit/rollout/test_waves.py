"""A rollout as a machine of its own: Sparks that do what they are told, and some that do not."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pytest

from sparkwright.rollout.record import Result, Task, TaskReport
from sparkwright.rollout.report import plan_lines
from sparkwright.rollout.serving import ServingState
from sparkwright.rollout.waves import Rollout, waves

NAMES = frozenset({"qwen"})


@dataclass
class Fleet:
    """Sparks, and what they do.

    Attributes:
        serves: the release of each; None for nothing.
        fails: what a task on a Spark ends with, in place of success.
        after: what happens to the fleet once a task on a Spark is done.
        log: each task but looks, in the order in which they were done.
    """

    replicas: Mapping[str, tuple[str, ...]]
    serves: dict[str, str | None]
    forced: Collection[str] = ()
    wanted: str = "new"
    fits: Collection[str] = ()
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    fails: Mapping[tuple[Task, str], TaskReport] = field(default_factory=dict)
    after: Mapping[tuple[Task, str], Callable[["Fleet", Rollout], None]] = field(
        default_factory=dict
    )
    log: list[str] = field(default_factory=list)
    least: int = 99

    def play(self) -> Rollout:
        """Have all Sparks work until the rollout has ended."""
        rollout = Rollout(self.replicas, self.forced)
        sparks = [spark for each in self.replicas.values() for spark in each]
        previous = dict(self.serves)
        for spark in sparks:
            rollout.declare(spark, self.wanted, NAMES)
        while any(rollout.task(spark) is not Task.END for spark in sparks):
            # All that is given out at one time is done at one time.
            at_work = [s for s in sparks if rollout.task(s) not in (Task.WAIT, Task.END)]
            assert at_work, "everybody waits"
            for spark in at_work:
                task = rollout.task(spark)
                self._do(rollout, task, spark, previous)
        return rollout

    def _do(
        self, rollout: Rollout, task: Task, spark: str, previous: Mapping[str, str | None]
    ) -> None:
        done = self.fails.get((task, spark), TaskReport(seconds=10.0, gap=1.0))
        if task is not Task.LOOK:
            self.log.append(f"{task.value} {spark}")
        if task is Task.LOOK and not done.problem:
            release = self.serves[spark]
            names = self.names.get(spark, NAMES) if release else frozenset()
            done = TaskReport(
                serving=ServingState(release, "invocation", names), fits_beside=spark in self.fits
            )
        elif task is Task.SWITCH:
            in_service = [each for each in self.serves if self.serves[each] and each != spark]
            self.least = min(self.least, len(in_service))
            self.serves[spark] = previous[spark] if done.problem else self.wanted
        elif task is Task.BACK and not done.problem:
            self.serves[spark] = previous[spark]
        rollout.report(spark, done)
        if then := self.after.get((task, spark)):
            then(self, rollout)


def singles(*names: str, serves: str | None = "old", **changes: object) -> Fleet:
    """Replicas of one Spark each, all with the same name as their Spark."""
    return Fleet({name: (name,) for name in names}, dict.fromkeys(names, serves), **changes)  # type: ignore[arg-type]


def results(rollout: Rollout) -> dict[str, Result]:
    return {name: record.result for name, record in rollout.records.items()}


def test_waves_begin_with_one_and_grow() -> None:
    assert waves([]) == []
    assert waves("a") == [("a",)]
    assert waves("abcdefghi") == [("a",), ("b",), ("c", "d"), ("e", "f", "g", "h"), ("i",)]


def test_one_replica_at_a_time_and_each_wave_soaks() -> None:
    fleet = singles("a", "b", "c", "d")
    rollout = fleet.play()
    assert fleet.log == [
        *("switch a", "soak a"),
        *("switch b", "soak b"),
        *("switch c", "switch d", "soak c", "soak d"),
    ]
    assert set(results(rollout).values()) == {Result.SWITCHED}
    assert fleet.least == 3
    assert not any(rollout.verdict(spark) for spark in fleet.serves)
    assert rollout.stopped == ""


def test_what_serves_its_release_is_not_touched() -> None:
    fleet = singles("a", "b", "c")
    fleet.serves["b"] = "new"
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a", "switch c", "soak c"]
    assert results(rollout)["b"] is Result.ALREADY
    again = fleet.play()
    assert set(results(again).values()) == {Result.ALREADY}
    assert again.waves == []


def test_a_failed_switch_stops_the_rollout_and_takes_its_wave_back() -> None:
    fails = {(Task.SWITCH, "d"): TaskReport(problem="no token", restored=True)}
    fleet = singles("a", "b", "c", "d", "e", fails=fails)
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
    said = rollout.verdict("d")
    assert "replica d: no token\nold serves, and new is off. Full log: jour" in said
    assert "Taken back: c.\nNot reached: e.\nRun again" in said
    assert [spark for spark in fleet.serves if rollout.verdict(spark)] == ["d"]


def test_a_wave_that_does_not_hold_is_taken_back_the_last_first() -> None:
    fails = {(Task.SOAK, "c"): TaskReport(problem="too slow", speed=3.0)}
    fleet = singles("a", "b", "c", "d", fails=fails)
    rollout = fleet.play()
    assert fleet.log[-2:] == ["back d", "back c"]
    assert results(rollout)["c"] is Result.FAILED
    assert results(rollout)["d"] is Result.BACK
    assert rollout.records["d"].reason == "replica c: too slow"
    assert rollout.records["c"].speed == 3.0
    assert fleet.serves == {"a": "new", "b": "new", "c": "old", "d": "old"}


def test_a_way_back_that_fails_is_told() -> None:
    fails = {
        (Task.SOAK, "a"): TaskReport(problem="it ended"),
        (Task.BACK, "a"): TaskReport(problem="disk full"),
    }
    fleet = singles("a", "b", fails=fails)
    rollout = fleet.play()
    assert results(rollout)["a"] is Result.STUCK
    assert "it ended; the way back failed: disk full" in rollout.verdict("a")
    assert "`sparkwright rollback --limit a`" in rollout.verdict("a")


def test_a_switch_that_leaves_nothing_is_told() -> None:
    fails = {(Task.SWITCH, "a"): TaskReport(problem="no token")}
    rollout = singles("a", "b", fails=fails).play()
    assert results(rollout) == {"a": Result.DOWN, "b": Result.WAITING}
    assert "It serves nothing" in rollout.verdict("a")
    assert "To have old serve again: `sparkwright rollback --limit a`" in rollout.verdict("a")


def test_an_earlier_wave_that_dies_later_goes_back_as_well() -> None:
    def die(fleet: Fleet, rollout: Rollout) -> None:
        fleet.serves["a"] = None

    fleet = singles("a", "b", "c", after={(Task.SWITCH, "b"): die})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a", "switch b", "soak b", "back a"]
    assert results(rollout) == {"a": Result.FAILED, "b": Result.SWITCHED, "c": Result.WAITING}


def test_one_that_dies_while_the_last_wave_soaks_is_not_forgotten() -> None:
    def die(fleet: Fleet, rollout: Rollout) -> None:
        fleet.serves["a"] = None

    rollout = singles("a", "b", after={(Task.SOAK, "b"): die}).play()
    assert results(rollout) == {"a": Result.FAILED, "b": Result.SWITCHED}
    assert "does no more" in rollout.verdict("a")


def test_no_turn_begins_while_another_replica_is_down() -> None:
    def die(fleet: Fleet, rollout: Rollout) -> None:
        fleet.serves["c"] = None

    fleet = singles("a", "b", "c", after={(Task.SOAK, "a"): die})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a"]
    assert results(rollout) == {"a": Result.SWITCHED, "b": Result.WAITING, "c": Result.REFUSED}
    assert "it served when the rollout began, and does no more" in rollout.verdict("c")


def test_a_replica_changed_by_hand_is_left_alone() -> None:
    def change(fleet: Fleet, rollout: Rollout) -> None:
        fleet.serves["b"] = "mine"

    fleet = singles("a", "b", "c", after={(Task.SOAK, "a"): change})
    rollout = fleet.play()
    assert "switch b" not in fleet.log
    assert fleet.serves["b"] == "mine"
    assert "found mine" in rollout.verdict("b")
    assert "expected old as when the rollout began, or new" in rollout.verdict("b")


def test_a_replica_that_somebody_else_has_switched_meanwhile_is_done() -> None:
    def change(fleet: Fleet, rollout: Rollout) -> None:
        fleet.serves["b"] = "new"

    fleet = singles("a", "b", "c", after={(Task.SOAK, "a"): change})
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
        assert "no other replica of this run serves a model" in rollout.verdict("a")
        assert "--data force=a" in plan_lines(rollout)[0]


def test_a_model_that_no_other_replica_serves_counts() -> None:
    """Every replica stays as it is, also those that could switch."""
    names = {"c": frozenset({"qwen", "coder"})}
    fleet = singles("a", "b", "c", names=names)
    rollout = Rollout(fleet.replicas)
    for spark in fleet.serves:
        rollout.declare(spark, "new", names.get(spark, NAMES))
    for spark in fleet.serves:
        rollout.report(
            spark, TaskReport(serving=ServingState("old", "invocation", names.get(spark, NAMES)))
        )
    assert rollout.task("a") is Task.END
    assert results(rollout)["c"] is Result.REFUSED
    assert "serves model coder" in rollout.verdict("c")


def test_names_that_the_inventory_gives_up_may_go() -> None:
    names = dict.fromkeys("ab", frozenset({"qwen-old"}))
    fleet = singles("a", "b", names=names)
    assert set(results(fleet.play()).values()) == {Result.SWITCHED}


def test_a_pair_switches_as_a_whole() -> None:
    fleet = Fleet(
        {"big": ("a", "b"), "small": ("c",)},
        {"a": "old", "b": "old", "c": "old"},
        fails={(Task.SWITCH, "b"): TaskReport(problem="no link", restored=True)},
    )
    rollout = fleet.play()
    assert fleet.log == ["switch a", "switch b", "back a", "back b"]
    assert results(rollout) == {"big": Result.FAILED, "small": Result.WAITING}
    assert fleet.serves == dict.fromkeys("abc", "old")
    assert rollout.verdict("a") == rollout.verdict("b")


def test_a_lost_spark_holds_nobody_up() -> None:
    def lose(fleet: Fleet, rollout: Rollout) -> None:
        rollout.lost("b", "no word")

    fleet = singles("a", "b", "c", after={(Task.SWITCH, "a"): lose})
    rollout = fleet.play()
    assert fleet.log == ["switch a", "soak a"]
    assert results(rollout) == {"a": Result.SWITCHED, "b": Result.LOST, "c": Result.WAITING}


def test_a_spark_lost_in_its_switch_counts_as_lost() -> None:
    rollout = Rollout({"a": ("a",), "b": ("b",)})
    for spark in "ab":
        rollout.declare(spark, "new", NAMES)
    for _ in range(2):
        for spark in "ab":
            rollout.report(spark, TaskReport(serving=ServingState("old", "invocation", NAMES)))
    assert rollout.task("a") is Task.SWITCH
    rollout.lost("a", "no word")
    assert rollout.task("b") is Task.END
    assert results(rollout) == {"a": Result.LOST, "b": Result.WAITING}
