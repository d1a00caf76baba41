"""Four Sparks on a switch that serve one model by real vLLM: from the factory, and after a crash.

The tests build on one another, in order.
"""

from collections.abc import Callable

import pytest

from tests.driver.declared import replica
from tests.driver.events import DEAD_RANK, EVENTS, bounded, plain_start
from tests.driver.pairs import Group, check_rendezvous
from tests.driver.product import DEPLOY, pyinfra, verification
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import Engine

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def group(machine: None, engine: Engine) -> Group:
    return Group(*Lab().ensure(4, engine, together="switch"))


@pytest.fixture(scope="module")
def serving(group: Group) -> Group:
    """The group, which serves since its first run."""
    group.each(Handle.reset)
    pyinfra(DEPLOY).succeeded()
    group.wait_serving()
    return group


def test_each_spark_has_one_of_four_ranks(serving: Group) -> None:
    ranks = serving.each(lambda spark: spark.run("pgrep VLLM::Worker | xargs ps -o args=").stdout)
    assert [f"TP{rank}" in said for rank, said in enumerate(ranks)] == [True] * 4, ranks
    check_rendezvous(serving)


def test_a_second_run_changes_nothing(serving: Group) -> None:
    before = serving.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert serving.lives() == before


def test_verification(serving: Group) -> None:
    assert "proved on spark4" in verification()


def test_a_killed_rank_is_recovered_from(
    serving: Group, record_property: Callable[[str, object], None]
) -> None:
    start = plain_start(serving)
    event = EVENTS[DEAD_RANK]
    seconds = serving.recovery(event.strike)
    record_property("measured", bounded(serving, event.fault, seconds, start, lambda: 0))


def test_one_spark_gives_the_same_tokens(serving: Group) -> None:
    tokens = serving.ask()
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert serving.ask() == tokens
