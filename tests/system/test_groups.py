"""Three Sparks in a ring, and four on a switch: from the factory to one served model, and back.

The tests build on one another, in order.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.driver.client import PORT
from tests.driver.declared import changed, seed
from tests.driver.events import FAULTS, bounded
from tests.driver.fixtures import deliver
from tests.driver.listing import changes, listing, purge
from tests.driver.load import load
from tests.driver.pairs import Group, check_rendezvous, received_bytes
from tests.driver.product import DEPLOY, Run, pyinfra
from tests.driver.sparks import current, engines_status, eventually, until
from tests.driver.turns import GROUP, asked, await_running, taking_turns, told, within_the_plan
from tests.lab import hub
from tests.lab.lab import Lab
from tests.lab.network import LAN_PORT
from tests.lab.state import Engine, Together

FABRIC = "sparkwright.network.fabric.deploy.apply"
SIZES: dict[Together, int] = {"ring": 3, "switch": 4}
# Each way to notice a fault, on the head (0) and on others; the campaign has all faults of all.
STRUCK: dict[Together, list[tuple[str, int]]] = {
    "ring": [("its rank hangs", 2), ("its cables are cut and mended", 1)],
    "switch": [("its rank is killed", 3), ("it loses its power", 0)],
}
# Who is lost: the middle of the ring; of the switch, the head, which clients know.
LOST: dict[Together, int] = {"ring": 1, "switch": 0}
Listings = list[dict[str, set[str]]]


@pytest.fixture(scope="module", params=SIZES)
def topology(request: pytest.FixtureRequest) -> Together:
    """What joins the Sparks."""
    name: Together = request.param
    return name


@pytest.fixture(scope="module")
def group(machine: None, engine: Engine, topology: Together) -> Group:
    return Group(*Lab().ensure(SIZES[topology], engine, together=topology))


@pytest.fixture(scope="module")
def as_delivered(group: Group) -> Listings:
    """What each Spark was before the first run."""
    return deliver(group)


@pytest.fixture(scope="module")
def lan_before(as_delivered: Listings, group: Group) -> list[int]:
    """What each Spark had received of the LAN before the first run."""
    return group.each(partial(received_bytes, port=LAN_PORT))


@pytest.fixture(scope="module")
def planned(lan_before: list[int]) -> frozenset[str]:
    """What a dry run says would change."""
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def first_run(planned: frozenset[str]) -> Run:
    """The run that has them serve one model."""
    return pyinfra(DEPLOY).succeeded()


@pytest.fixture(scope="module")
def serving(group: Group, first_run: Run) -> Group:
    """The group, which serves since its first run."""
    group.wait_serving()
    return group


@pytest.fixture
def miswired(group: Group, topology: Together) -> Iterator[list[str]]:
    """A cable in a wrong port; yields what is said of it."""
    last = group.worker
    if topology == "ring":
        # The cable between the first and the last joins the first two once more.
        last.plug({1: 1})
        group.sparks[1].plug({0: 2, 1: 0})
        yield [
            "port 0 leads to spark2 and port 1 leads to spark2",
            "spark3 has 0 of 2 ConnectX ports with a link",
        ]
        last.plug({0: 2, 1: 1})
        group.sparks[1].plug({0: 1, 1: 0})
    else:
        last.plug({1: 0})
        yield ["the cable is in port 0 of spark1", "but in port 1 of spark4"]
        last.plug({0: 0})


def test_a_wrong_cable_is_told_by_whose_port_it_is_in(
    as_delivered: Listings, miswired: list[str]
) -> None:
    pyinfra(FABRIC).refused(*miswired)


def test_a_dry_run_said_what_the_first_run_did_and_a_second_changes_nothing(
    planned: frozenset[str], first_run: Run, serving: Group
) -> None:
    assert planned == first_run.changed
    before = serving.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert serving.lives() == before


def test_weights_and_image_came_once_over_the_wan(serving: Group, lan_before: list[int]) -> None:
    weights = "du -sb --exclude='.*' /opt/qwen36/tiny@* | cut -f1"
    image = "docker image ls -q '*/*/vllm-cpu' | xargs docker inspect -f {{.Size}}"
    held = int(serving.head.run(weights).stdout)
    assert sum(seen["bytes"] for seen in hub.stats().values()) < 1.1 * held
    least = held + int(serving.head.run(f'sudo sh -c "{image}"').stdout)
    received = serving.each(partial(received_bytes, port=LAN_PORT))
    of_lan = [now - before for now, before in zip(received, lan_before, strict=True)]
    assert max(of_lan[1:]) < of_lan[0] - held < least, (of_lan, held, least)


def test_the_rendezvous_is_closed_on_the_lan(serving: Group) -> None:
    check_rendezvous(serving)


def check(serving: Group, name: str, number: int, start: float, boot: Callable[[], float]) -> str:
    """Let a fault befall a Spark, and check that all serve again in time; return what it took."""
    fault, spark = FAULTS[name], serving.sparks[number]
    seconds = serving.recovery(lambda group: fault.strike(group, spark))
    return f"{spark.name}, {name}: {bounded(serving, fault, seconds, start, boot)}"


@pytest.mark.parametrize("case", range(2))
def test_all_restart_by_themselves(
    topology: Together,
    serving: Group,
    start: float,
    boot: Callable[[], float],
    case: int,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("measured", check(serving, *STRUCK[topology][case], start, boot))


def test_the_rest_serves_without_a_lost_spark_until_it_is_back(
    topology: Together, serving: Group
) -> None:
    lost = serving.sparks[LOST[topology]]
    rest = Group(*(spark for spark in serving.sparks if spark is not lost))
    lost.power_off()
    pyinfra(DEPLOY, "--data", f"without={lost.name}").succeeded()
    rest.wait_serving()
    lives = rest.lives()
    lost.power_on()
    lost.wait_ready()
    assert rest.lives() == lives
    pyinfra(DEPLOY).succeeded()
    serving.wait_serving()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    serving.forget()


@pytest.mark.campaign
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("number", range(max(SIZES.values())))
@pytest.mark.parametrize("turn", [1, 2])
def test_all_restart_whatever_befalls_whichever(
    topology: Together,
    serving: Group,
    start: float,
    boot: Callable[[], float],
    turn: int,
    number: int,
    name: str,
) -> None:
    if number < SIZES[topology]:
        print(topology, turn, check(serving, name, number, start, boot), flush=True)


def test_who_is_away_is_named_by_all(serving: Group) -> None:
    unit, away = serving.unit(), serving.worker
    away.run(f"sudo systemctl stop {unit}")
    for spark in serving.sparks[:-1]:
        until(spark, f"systemctl show -P StatusText {unit} | grep -q waiting")
    assert f"waiting for {away.name}" in engines_status(serving.head)
    assert serving.each(lambda spark: spark.run("sudo docker ps -q").stdout) == [""] * len(
        serving.sparks
    )
    away.run(f"sudo systemctl start --no-block {unit}")
    serving.wait_serving()
    serving.forget()


def test_a_switch_and_the_way_back_lose_no_answer(serving: Group) -> None:
    previous = current(serving.head)
    with changed("other", seed(1)), load(serving.head) as seen:
        pyinfra(DEPLOY).succeeded()
        assert len({current(spark) for spark in serving.sparks} - {previous}) == 1
        pyinfra("deploys/rollback.py").succeeded()
    assert seen.failed == []
    assert {current(spark) for spark in serving.sparks} == {previous}
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_all_stop_and_start_together(serving: Group) -> None:
    before = serving.lives()
    assert pyinfra("deploys/stop.py").succeeded().changed == {"Engine | Stop"}
    assert not any(serving.lives())
    assert pyinfra("deploys/start.py").succeeded().changed == {"Engine | Start"}
    serving.wait_serving(before)


@pytest.fixture(scope="module")
def in_turn(serving: Group) -> Iterator[Group]:
    """The group in turn with a model on its first Spark and one on its last."""
    with taking_turns(first=serving.head.name, last=serving.worker.name):
        yield serving


@pytest.mark.campaign
def test_it_is_given_up_for_singles_and_comes_back(in_turn: Group) -> None:
    """None of those who ask all of them all the time has another answer for that."""
    first, last = in_turn.head, in_turn.worker
    pyinfra(DEPLOY).succeeded()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    own = {GROUP: (first, PORT), "first": (first, PORT + 1), "last": (last, PORT + 1)}
    with ExitStack() as stack:
        for spark in in_turn.sparks:
            stack.enter_context(within_the_plan(spark))
        seen = [
            stack.enter_context(load(spark, 1, port=port, model=name))
            for name, (spark, port) in own.items()
        ]

        def turns() -> int:
            return min(told(spark)[name]["starts"] for name, (spark, _) in own.items())

        begun = turns()
        eventually(lambda: turns() >= begun + 2, "each to have its turns", 300)
    print("\nthe longest waits:", *(f"{each.longest_wait:.1f} s" for each in seen))
    assert [each.failed for each in seen] == [[]] * 3
    assert asked(first, GROUP, port=PORT).ok
    for spark in in_turn.sparks:
        await_running(spark, GROUP)


def test_weights_stay_and_the_rest_goes(serving: Group, as_delivered: Listings) -> None:
    run = pyinfra("deploys/remove.py").succeeded()
    serving.each(lambda spark: purge(run, spark))
    for before, after in zip(as_delivered, serving.each(listing), strict=True):
        left = changes(before, after)
        weights = left.pop("files")
        assert left == {}
        assert all(" opt/qwen36/" in line for line in weights), weights
    assert pyinfra("deploys/remove.py").succeeded().changed == frozenset()
