"""The course of a rollout: replicas that do what they are told, and some that do not."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparkwright.upkeep.rollout import rollout as course
from sparkwright.upkeep.rollout.plan import (
    ReplicaRecord,
    Result,
    Serving,
    make_plan,
    plan_lines,
    serving_of,
    table,
)
from sparkwright.upkeep.rollout.rollout import Rollout
from sparkwright.upkeep.rollout.runs import Runs

NAMES = ("qwen",)
# What a replica serves afterwards.
SERVES = {"switched": "new", "already": "new", "back": "old", "failed": "old", "down": None}


@dataclass
class Fleet:
    """Replicas, and what they do.

    Attributes:
        serves: the release of each; None for nothing.
        names: those of what a replica serves at first, and is to serve.
        fails: why a switch to the new release ("+a"), a check ("=a") or a way back ("-a") fails.
        after: what happens to the fleet once a step is done.
        log: each step but looks, in order.
    """

    serves: dict[str, str | None]
    forced: Collection[str] = ()
    fits: Collection[str] = ()
    pairs: Collection[str] = ()
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    old_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fails: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, Callable[["Fleet"], object]] = field(default_factory=dict)
    speed: float | None = None
    log: list[str] = field(default_factory=list)
    switching: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)

    def play(self, soak: float = 0, file: Path = Path("/dev/null")) -> Rollout:
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
        rollout = Rollout(records, plan, runs, soak, None, file)
        rollout.run()
        return rollout

    def do(self, step: str, name: str, release: str | None) -> str:
        """Do a step of a replica; return why it failed."""
        self.log.append(f"{step}{name}")
        why = self.fails.get(f"{step}{name}", "")
        if not why:
            self.serves[name] = release
        if then := self.after.get(f"{step}{name}"):
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
            step = "+" if record.result is Result.SWITCHING else "="
            now = self.fleet.serves[record.replica]
            why = self.fleet.do(step, record.replica, "new" if step == "+" else now)
            record.seconds, record.gap = 10.0, 1.0
            record.speed = self.fleet.speed
            problems |= {record.replica: why} if why else {}
        return problems

    def go_back(self, record: ReplicaRecord) -> str:
        return self.fleet.do("-", record.replica, record.previous)


def singles(letters: str, serves: str | None = "old", **changes: object) -> Fleet:
    return Fleet(dict.fromkeys(letters, serves), **changes)  # type: ignore[arg-type]


def becomes(name: str, release: str | None) -> Callable[[Fleet], None]:
    return lambda fleet: fleet.serves.update({name: release})


def gets_lost(name: str) -> Callable[[Fleet], None]:
    return lambda fleet: fleet.silent.add(name)


CODER = {"c": ("qwen", "coder")}
OTHERS = dict.fromkeys("ab", ("qwen-old",))
TOKEN = {"+a": "no token"}
DOWN = "replica c: it served when the rollout began, and does no more"
MINE = "found mine, set by somebody else; expected old as when the rollout began, or new"


@pytest.mark.parametrize(
    ("fleet", "log", "results", "stopped"),
    [
        # One replica at a time, and each wave soaks.
        (singles("abcd"), "+a =a +b =b +c +d =c =d", "switched switched switched switched", ""),
        # What serves its release is not touched.
        (Fleet({"a": "old", "b": "new"}), "+a =a", "switched already", ""),
        # A switch that a killed run has begun is joined.
        (
            Fleet(
                {"a": None}, switching={"a"}, after={"+a": lambda fleet: fleet.switching.clear()}
            ),
            *("+a =a", "switched", ""),
        ),
        # A failed switch stops the rollout, and its wave goes back.
        (
            singles("abcde", fails={"+d": "no token"}),
            *("+a =a +b =b +c +d -c", "switched switched back failed waiting"),
            "replica d: no token",
        ),
        # So does a wave that does not hold, the last first.
        (
            singles("abcd", fails={"=c": "too slow"}),
            *("+a =a +b =b +c +d =c =d -d -c", "switched switched failed back"),
            "replica c: too slow",
        ),
        (
            singles("ab", fails={"=a": "it ended", "-a": "disk full"}),
            *("+a =a -a", "stuck waiting", "replica a: it ended"),
        ),
        # A switch leaves nothing; the new release without an answer; or one Spark of a pair on it.
        (
            singles("ab", fails=TOKEN, after={"+a": becomes("a", None)}),
            *("+a", "down waiting", "replica a: no token"),
        ),
        (
            singles("ab", fails=TOKEN, after={"+a": becomes("a", "new")}),
            *("+a -a", "failed waiting", "replica a: no token"),
        ),
        (
            singles("ab", pairs="a", fails=TOKEN, after={"+a": becomes("a", None)}),
            *("+a -a", "failed waiting", "replica a: no token"),
        ),
        # A Spark is lost in its switch.
        (
            singles("ab", fails=TOKEN, after={"+a": gets_lost("a")}),
            *("+a", "lost waiting", "no token"),
        ),
        (
            singles("ab", fails=TOKEN, after={"+a": lambda fleet: fleet.switching.add("a")}),
            *("+a", "lost waiting", "no token"),
        ),
        # An earlier wave that dies later goes back as well.
        (
            singles("abc", after={"+b": becomes("a", None)}),
            *("+a =a +b =b -a", "failed switched waiting", "does no more"),
        ),
        # No turn begins while another replica is down.
        (
            singles("abc", after={"=a": becomes("c", None)}),
            *("+a =a", "switched waiting refused", DOWN),
        ),
        (
            singles("abc", after={"=a": gets_lost("c")}),
            *("+a =a", "switched waiting lost", "replica c: c: no power"),
        ),
        # Somebody else has changed one, or switched it meanwhile.
        (
            singles("abc", after={"=a": becomes("b", "mine")}),
            *("+a =a", "switched refused waiting", MINE),
        ),
        (
            singles("abc", after={"=a": becomes("b", "new")}),
            *("+a =a +c =c", "switched already switched", ""),
        ),
        # A model that no other replica serves counts: then all stay as they are.
        (
            singles("abc", names=CODER, old_names=CODER),
            *("", "waiting waiting refused", "serves model coder"),
        ),
        # Names that the inventory gives up may go.
        (singles("ab", old_names=OTHERS), "+a =a +b =b", "switched switched", ""),
        # Nobody is left with nothing.
        (singles("a"), "", "refused", "replica a: while it switches, no other replica of this run"),
        (singles("a", forced="a"), "+a =a", "switched", ""),
        (singles("a", fits="a"), "+a =a", "switched", ""),
        (singles("a", None), "+a =a", "switched", ""),
    ],
)
def test_the_course_of_a_rollout(fleet: Fleet, log: str, results: str, stopped: str) -> None:
    rollout = fleet.play()
    assert fleet.log == log.split()
    assert [each.result.name.lower() for each in rollout.records.values()] == results.split()
    assert stopped in rollout.stopped
    assert bool(rollout.stopped) == bool(stopped)
    for name, result in zip(fleet.serves, results.split(), strict=True):
        assert fleet.serves[name] == SERVES.get(result, fleet.serves[name])


def test_waves_begin_with_one_and_grow() -> None:
    for count, sizes in ((0, []), (1, [1]), (9, [1, 1, 2, 4, 1]), (64, [1, 1, 2, 4, 8, 16, 32])):
        records = {f"{n:02}": ReplicaRecord(f"{n:02}", ("x",), "new", NAMES) for n in range(count)}
        waves = make_plan(records, dict.fromkeys(records, Serving("old")), ())
        assert [len(wave) for wave in waves] == sizes
        assert [each.replica for wave in waves for each in wave] == [*records]
        assert [each.wave for each in waves[-1]] == sizes[-1] * [len(sizes)] if waves else not sizes


@pytest.mark.parametrize(
    "change", [becomes("a", None), lambda fleet: fleet.restarted.add("a")], ids=["ends", "restarts"]
)
def test_an_engine_that_ends_in_its_soak_goes_back(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Fleet], None]
) -> None:
    fleet = singles("ab")
    monkeypatch.setattr(course.time, "sleep", lambda seconds: change(fleet))
    rollout = fleet.play(soak=300)
    assert fleet.log == ["+a", "-a"]
    assert "vllm@new failed its soak: it ended within 0 s" in rollout.stopped
    assert [each.result for each in rollout.records.values()] == [Result.FAILED, Result.WAITING]


def test_each_reason_is_told() -> None:
    rollout = singles("abcd", fails={"=c": "too slow", "-c": "disk full"}, speed=3.0).play()
    assert rollout.records["d"].reason == "replica c: too slow"
    assert rollout.records["c"].reason == "too slow; the way back failed: disk full"
    assert rollout.records["c"].speed == 3.0


def test_a_pair_serves_what_both_serve() -> None:
    row = {"spark": "a", "answers": True, "state": "active", "up_since": 1, "switches": []}
    row |= {"on_demand": False, "last_served": "x"}
    head, worker = row | {"release": "x", "models": ["m"]}, row | {"release": "x", "models": []}
    assert serving_of([head, worker]) == Serving("x", "x", (1, 1), frozenset({"m"}))
    assert serving_of([head, worker | {"release": "y"}]).release is None
    assert serving_of([head, worker | {"state": "failed"}]).release is None
    assert serving_of([head, worker | {"switches": ["y"]}]).switching
    # One that is stopped until its next turn serves as well, if it ever has; its turns are no soak.
    rests = head | {"on_demand": True, "state": None, "up_since": None}
    assert serving_of([rests]) == Serving("x", "x", (None,), frozenset({"m"}))
    assert serving_of([rests | {"state": "active", "up_since": 7}]) == serving_of([rests])
    for change in ({"state": "failed"}, {"last_served": None}, {"on_demand": False}):
        assert serving_of([rests | change]).release is None
    silent = {"spark": "b", "answers": False, "warnings": ["no power"]}
    assert serving_of([head, silent]) == Serving(problem="b: no power")


def test_the_report(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    ended = []
    fleet = singles("abc", fails={"+b": "no token"})
    fleet.after = {"+a": lambda _: ended.append(json.loads(file.read_text())["ended"])}
    rollout = fleet.play(file=file)
    told = json.loads(file.read_text())
    assert (ended, bool(told["ended"])) == ([None], True)
    assert told["stopped"] == "replica b: no token"
    assert [each["wave"] for each in told["replicas"]] == [1, 2, 3]
    assert told["replicas"][1]["seconds"] == 10.0
    *_, stopped, _ = table(rollout.records.values(), rollout.stopped)
    assert stopped == "Stopped: replica b: no token"


@pytest.mark.parametrize(
    "fleet",
    [
        singles("a", fits="a", fails=TOKEN, after={"+a": becomes("a", None)}),
        singles("a", fits="a", fails={"=a": "it ended", "-a": "disk full"}),
    ],
)
def test_how_to_go_back_is_told_where_nothing_serves(fleet: Fleet) -> None:
    rollout = fleet.play()
    back = "To have old serve again: sparkwright rollback --limit a"
    assert back in table(rollout.records.values(), rollout.stopped)


def test_a_refusal_in_a_plan_says_how_to_go_on() -> None:
    refused = singles("a").play()
    (line,) = plan_lines(refused.records.values(), refused.waves)
    assert "no other replica of this run serves a model" in line
    assert "--force a" in line
