"""The decision of turns: its rules one by one, what holds whatever comes, and 1,000 requests."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.engine.turns.decision import QUIET, Contender, next_steps
from tests.unit.engine.turns_world import LOOK, Request, World, wait_beyond


def _serving(name: str, size: int, **more) -> Contender:
    return Contender(name, size, **{"phase": "serving", **more})


def _steps(*replicas: Contender, total: int = 10, now: float = 1000, drain: float = 300):
    found = next_steps(replicas, total, now, drain)
    return [(step.do, step.name) for step in found]


WAITS = Contender("b", 6, waits=999)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param([WAITS], [("start", "b")], id="room"),
        pytest.param([_serving("a", 6), WAITS], [("close", "a")], id="first the door"),
        pytest.param([_serving("a", 6, closed=998), WAITS], [("stop", "a")], id="then the engine"),
        pytest.param(
            [_serving("a", 6, closed=998, in_flight=1), WAITS], [], id="not with requests in flight"
        ),
        pytest.param(
            [replace(_serving("a", 6), phase="stopping"), WAITS], [], id="its end is awaited"
        ),
        pytest.param([_serving("a", 6, since=990, used=998, turn=60), WAITS], [], id="in its turn"),
        pytest.param(
            [_serving("a", 6, since=990, used=997, turn=60), WAITS],
            [("close", "a")],
            id="quiet in its turn",
        ),
        pytest.param(
            [_serving("a", 6, since=998, used=998), WAITS],
            [],
            id="until its door has let in who waited",
        ),
        pytest.param(
            [_serving("a", 6, pinned=True), WAITS], [("refuse", "b")], id="beside a pinned one"
        ),
        pytest.param(
            [_serving("a", 6, phase="stopping"), WAITS, Contender("c", 4, waits=1000)],
            [("start", "c")],
            id="nor does it keep others from what is free",
        ),
        pytest.param(
            [Contender("a", 6, on_demand=False), WAITS],
            [("refuse", "b")],
            id="the place of one that always runs, though it is down",
        ),
        pytest.param([replace(WAITS, barred="it failed")], [("refuse", "b")], id="barred"),
        pytest.param(
            [_serving("a", 6, closed=998)], [("open", "a")], id="nobody needs it any more"
        ),
        pytest.param(
            [_serving("a", 6, closed=600, in_flight=1), WAITS],
            [("open", "a"), ("refuse", "b")],
            id="an answer without end",
        ),
        pytest.param(
            [_serving("a", 4, used=10), _serving("c", 4, used=5), WAITS],
            [("close", "c")],
            id="the least recently used",
        ),
        pytest.param(
            [_serving("a", 2, used=5), _serving("c", 6, used=9), WAITS],
            [("close", "c")],
            id="none whose end would not help",
        ),
        pytest.param(
            [_serving("a", 6, used=100, idle=900)], [("close", "a")], id="unused for its time"
        ),
        pytest.param([_serving("a", 6, used=101, idle=900)], [], id="used within its time"),
        pytest.param(
            [Contender("a", 2, phase="starting", since=990), WAITS],
            [],
            id="one start at a time",
        ),
        pytest.param(
            [Contender("a", 2, phase="starting", bound=50, since=949)],
            [("stop", "a")],
            id="a start without end",
        ),
        pytest.param(
            [Contender("a", 2, phase="starting", on_demand=False), WAITS],
            [("start", "b")],
            id="one that always runs starts by itself",
        ),
        pytest.param(
            [_serving("a", 1, grouped=True), Contender("b", 1, grouped=True, waits=9)],
            [("close", "a")],
            id="one fabric",
        ),
        pytest.param(
            [_serving("a", 6, wanted_back=True)], [("close", "a")], id="the other Spark needs it"
        ),
        pytest.param(
            [_serving("a", 6, in_flight=1, used=1000), WAITS, Contender("c", 4, waits=1000)],
            [("start", "c"), ("close", "a")],
            id="one that takes nothing from the first goes before",
        ),
        pytest.param(
            [
                _serving("a", 6, in_flight=1, used=1000),
                WAITS,
                Contender("c", 4, waits=1000, spare=1),
            ],
            [("close", "a")],
            id="one that would does not",
        ),
    ],
)
def test_rule(replicas, expected):
    assert _steps(*replicas) == expected


def test_a_spark_of_its_own_head_room_counts_once():
    alone = [_serving("a", 4, spare=2), Contender("b", 4, spare=2, waits=1)]
    assert _steps(*alone) == [("start", "b")]
    assert _steps(*alone, total=9) == [("close", "a")]


SIZES = st.integers(1, 10)
REPLICAS = st.lists(
    st.builds(
        Contender,
        name=st.just(""),
        size=SIZES,
        spare=st.integers(0, 2),
        on_demand=st.sampled_from([True, True, True, False]),
        pinned=st.sampled_from([False, False, True]),
        grouped=st.sampled_from([False, False, True]),
        turn=st.sampled_from([10.0, 60.0]),
        idle=st.sampled_from([None, 30.0]),
    ),
    min_size=1,
    max_size=6,
)
ASKED = st.lists(
    st.tuples(st.integers(0, 5), st.floats(0, 120), st.floats(0.1, 90)), min_size=1, max_size=25
)


def _declared(replicas: list[Contender], total: int) -> list[Contender]:
    """Name them, and leave out what the declaration refuses: what does not fit beside the fixed."""
    named = [replace(each, name=f"r{number}") for number, each in enumerate(replicas)]
    kept: list[Contender] = []
    for each in sorted(named, key=lambda each: (each.on_demand, not each.pinned)):
        fixed = [one for one in kept if not one.yields]
        taken = sum(one.size for one in fixed), max([one.spare for one in [*fixed, each]])
        groups = sum(one.grouped for one in [*fixed, each])
        if taken[0] + each.size + taken[1] <= total and groups <= 1:
            kept.append(each)
    return kept


@settings(max_examples=60, deadline=None)
@given(REPLICAS, st.integers(10, 25), ASKED)
def test_whatever_comes_all_are_served_and_no_rule_is_broken(replicas, total, asked):
    """Never over the plan, never a pinned one, never one in flight (`World`); always progress."""
    declared = _declared(replicas, total)
    for each in (each for each in declared if not each.on_demand):
        declared[declared.index(each)] = replace(each, phase="serving")
    if not declared:
        return
    # No answer is longer than the drain; the hold is as long as the longest wait can be.
    world = World(declared, total, drain=100, start=20, stop=2)
    turn = max(each.turn for each in declared)
    bound = len(declared) * (2 * 90 + 20 + 2 + turn + QUIET + 10 * LOOK)
    # A pinned one that is started late may end the hope of none: all of them fit beside each.
    requests = [
        Request(declared[number % len(declared)].name, came, length, hold=bound)
        for number, came, length in asked
    ]
    world.run(requests)
    assert [each.refused for each in requests] == [""] * len(requests)


def test_two_greedy_clients_get_their_turns_in_blocks():
    """Each has a request in flight all the time, of models that do not fit together."""
    turn, start, stop, length = 60, 30, 2, 4
    pair = [Contender(name, 6, turn=turn) for name in "ab"]
    world = World(pair, 10, start=start, stop=stop)
    requests = [
        Request(name, number * 2, length, hold=4000) for number in range(900) for name in "ab"
    ]
    world.run(requests)
    waits = [each.began - each.came for each in requests]
    starts = [at for at, step in world.steps if step.do == "start"]
    assert max(waits) <= 2 * (length + stop + start) + turn + 10 * LOOK
    # When nobody comes any more, the last turn ends early.
    assert min(b - a for a, b in pairwise(starts[:-1])) >= turn + start
    assert len(starts) <= 1 + requests[-1].ended / (turn + start + stop)


def test_three_greedy_clients_wait_within_the_bound():
    turn, start, stop, length = 60, 30, 2, 4
    world = World([Contender(name, 6, turn=turn) for name in "abc"], 10, start=start, stop=stop)
    requests = [
        Request(name, number * 2, length, hold=4000) for number in range(600) for name in "abc"
    ]
    world.run(requests)
    one = length + start + stop + turn + 6 * LOOK
    assert max(each.began - each.came for each in requests) <= 2 * one + length + stop + start


def test_a_pair_is_given_up_for_two_singles_and_comes_back():
    pair = _serving("pair", 8, grouped=True, turn=60)
    world = World([pair, Contender("x", 4), Contender("y", 4)], 10)
    requests = [Request("x", 1, 5), Request("y", 2, 5), Request("pair", 120, 5)]
    world.run(requests)
    done = [(step.do, step.name) for _, step in world.steps if step.do in ("start", "stop")]
    assert done[:3] == [("stop", "pair"), ("start", "x"), ("start", "y")]
    assert {*done[3:5]} == {("stop", "x"), ("stop", "y")}
    assert done[5:] == [("start", "pair")]
    assert all(each.ended for each in requests)


@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_requests(seed):
    """Six models, and two clients who stay with one for a while: one start and 5 s at the most.

    Answers of those that had to give way do not count while they are in flight.
    """
    chance = random.Random(seed)
    start = 30.0
    sizes = {"coder": 6, "vision": 5, "chat": 6, "small": 2, "rerank": 1}
    models = [
        Contender("embed", 1, on_demand=False, phase="serving"),
        *(Contender(name, size, turn=60, idle=1800) for name, size in sizes.items()),
    ]
    requests: list[Request] = []
    clock = [0.0, 0.0]
    while len(requests) < 1000:
        client = clock.index(min(clock))
        clock[client] += chance.expovariate(1 / 300)
        name = chance.choice(["embed", *sizes])
        for _ in range(chance.randint(1, 15)):
            length = chance.uniform(0.5, 40)
            requests.append(Request(name, clock[client], length))
            clock[client] += length + chance.expovariate(1 / 10)
    requests = requests[:1000]
    world = World(models, 10, start=start, stop=1)
    world.run(requests)
    assert [each.refused for each in requests if each.refused] == []
    stops = [(at, step.name) for at, step in world.steps if step.do == "stop"]
    spans = [(each.name, each.began, each.ended) for each in requests]
    waits = sorted(wait_beyond(each.name, each.came, each.began, stops, spans) for each in requests)
    assert waits[950] <= start + 5
    # Of those who waited for a start, some came in that of another: one starts at a time.
    long = [each for each in waits if each > start / 2]
    assert long[len(long) // 2] <= start + 5
    assert long[int(0.95 * len(long))] <= 2 * start + 5
    assert sum(step.do == "start" for _, step in world.steps) > 20
