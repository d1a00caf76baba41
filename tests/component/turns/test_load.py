"""Many requests for six models of which the memory holds two or three, without and with faults."""

import random
import time
from itertools import pairwise

import pytest

from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.servers import until
from tests.component.turns.spark import Answer, Clients, Model, Spark, spark_of
from tests.unit.engine.turns_world import wait_beyond

pytestmark = haproxy

SIZES = {"coder": 6, "vision": 5, "chat": 6, "small": 2, "rerank": 1}
START, SLACK, TURN = 0.5, patience(5), 6.0


def _models(turn: float = 1.0, **faults: list[str]) -> dict[str, Model]:
    models = {name: Model(size, turn=turn) for name, size in SIZES.items()}
    for name, own in faults.items():
        models[name].faults = own
    return {"embed": Model(1, on_demand=False), **models}


def _asked(
    seed: int, requests: int, clients: int, block: int
) -> list[list[tuple[str, float, float]]]:
    """Return what clients ask, each of whom stays with a model for a while."""
    chance = random.Random(seed)
    found: list[list[tuple[str, float, float]]] = [[] for _ in range(clients)]
    while sum(map(len, found)) < requests:
        name = chance.choice(["embed", *SIZES])
        own = min(found, key=len)
        for _ in range(chance.randint(block // 2, 2 * block)):
            own.append((name, chance.uniform(0.002, 0.03), chance.expovariate(1 / 0.01)))
    while sum(map(len, found)) > requests:
        max(found, key=len).pop()
    return found


def _judge(spark: Spark, answers: list[Answer], requests: int) -> None:
    """Check that nobody was failed, and for how long the 95th of 100 waited; of those who did, too.

    Of these, each may have come in the turn of another.
    """
    assert len(answers) == requests
    assert [each.said for each in answers if each.status != 200] == []
    assert spark.exceeded == []
    assert spark.cut == 0
    stops = [(at, act.split()[1]) for at, act in spark.log if act.startswith("stop ")]
    spans = [(each.name, each.began, each.ended) for each in answers]
    waits = sorted(wait_beyond(each.name, each.came, each.began, stops, spans) for each in answers)
    long = [each for each in waits if each > START]
    print(f"\n{len(long)} waited; p95 of all {waits[int(0.95 * len(waits))]:.2f} s, ", end="")
    print(f"of those {long[int(0.95 * len(long))]:.2f} s; starts {spark.acts}")
    assert waits[int(0.95 * len(waits))] <= START + SLACK
    assert long[int(0.95 * len(long))] <= TURN + START + SLACK


def test_a_thousand_requests() -> None:
    with spark_of(_models(TURN), total=10, start=START) as spark:
        clients = Clients(spark)
        for each in _asked(7, 1000, clients=2, block=60):
            # Each has two requests under way.
            clients.ask(*each[::2])
            clients.ask(*each[1::2])
        _judge(spark, clients.end(), 1000)
        assert sum(act.startswith("start") for act in spark.acts) >= 8
        assert {each["refused"] for each in spark.told.values()} == {0}


def test_faults() -> None:
    """Engines are killed in their starts, or hang; the loop is killed; the power is lost."""
    faults = {"coder": ["killed", "", "killed"], "chat": ["hangs"], "vision": ["killed"]}
    with spark_of(_models(**faults), total=10, start=START) as spark:
        for seed in (1, 2):
            clients = Clients(spark)
            for each in _asked(seed, 90, clients=3, block=8):
                clients.ask(*each)
            while clients.are_busy:
                # However long its program takes to start.
                until(lambda: spark.has_looked)
                time.sleep(0.7)
                spark.loop()
            answers = clients.end()
            assert [each.said for each in answers if each.status != 200] == []
            assert len(answers) == 90
            spark.lose_power()
            spark.loop()
        assert spark.exceeded == []
        assert spark.cut == 0
        assert not any(faults.values())


@pytest.mark.parametrize("greedy", [2])
def test_greedy_clients_get_their_turns_in_blocks(greedy: int) -> None:
    """Two of each have requests in flight all the time, of two models that do not fit together."""
    turn, seconds = 3.0, 0.1
    models = {name: Model(6, turn=turn) for name in ("coder", "chat")}
    with spark_of(models, total=10, start=START) as spark:
        clients = Clients(spark)
        for name in models:
            for _ in range(greedy):
                clients.ask(*[(name, seconds, 0.0)] * 40)
        answers = clients.end()
        assert {each.status for each in answers} == {200}
        assert spark.cut == 0
        assert spark.exceeded == []
        # Its own end and start, and a look, a check and a try of the door.
        most = turn + seconds + 2 * (START / 4 + START + SLACK)
        assert max(each.began - each.came for each in answers) <= most
        last = {name: max(each.ended for each in answers if each.name == name) for name in models}
        both = [each for each in answers if each.ended <= min(last.values())]
        served = [sum(each.name == name for each in both) for name in models]
        assert max(served) <= 2 * min(served) + greedy * turn / seconds
        starts = [at for at, act in spark.log if act.startswith("start ")]
        assert all(later - earlier >= turn for earlier, later in pairwise(starts[:-1]))
