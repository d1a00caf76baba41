"""Two Sparks that serve one model by real vLLM: from the factory to an answer, and through a crash.

The tests build on one another, in order.
"""

from collections.abc import Callable

import pytest

from host.common import probe
from sparkwright.plan.release.lock import lock_path, read_lock
from tests.driver.declared import replica
from tests.driver.events import ENGINE_KILLED, RANK_HANGS
from tests.driver.pairs import Pair, check_rendezvous, received_bytes
from tests.driver.product import DEPLOY, pyinfra, verification
from tests.driver.ways_out import CONFINED, confinement
from tests.lab import hub
from tests.lab.spark import Handle
from tests.lab.state import FLEET

# Bytes that the engine image has at the least, as the lab's registry packs it.
IMAGE = 250_000_000


# Seconds in which a hang is noticed.
NOTICED = probe.found_within(probe.FAILURES)


@pytest.fixture(scope="module")
def fetched(pair: Pair) -> int:
    """Bytes that the hub sent for the run that had two Sparks from the factory serve."""
    pair.each(Handle.reset)
    before = sent()
    pyinfra(DEPLOY).succeeded()
    return sent() - before


@pytest.fixture(scope="module")
def serving(pair: Pair, fetched: int) -> Pair:
    """The pair, which serves since its first run."""
    pair.wait_serving()
    return pair


def sent() -> int:
    """Return the bytes of content that the hub has sent."""
    return sum(file["bytes"] for file in hub.stats().values())


def test_weights_and_image_crossed_the_lan_once(pair: Pair, fetched: int) -> None:
    """From hub and registry to the head, and from there by the fabric to the worker."""
    checkpoints = read_lock(lock_path(FLEET)).checkpoints.values()
    weights = sum(checkpoint.size for checkpoint in checkpoints)
    # Making the lock reads each config.json, too, and which shards the index names.
    looked = ("config.json", "model.safetensors.index.json")
    read = sum(
        each.files[name].size for each in checkpoints for name in looked if name in each.files
    )
    assert weights <= fetched <= weights + read
    assert received_bytes(pair.worker, "enP7s7") < IMAGE / 2 < received_bytes(pair.head, "enP7s7")
    assert received_bytes(pair.worker, "enp1s0f0np0") > weights + IMAGE


def test_second_run_changes_nothing(serving: Pair) -> None:
    before = serving.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert serving.lives() == before


def test_the_rendezvous_is_closed_on_the_lan(serving: Pair) -> None:
    check_rendezvous(serving)


def test_both_engines_are_confined(serving: Pair) -> None:
    """The lab has no RDMA device: with one, IPC_LOCK is the only capability."""
    assert serving.each(confinement) == [{CONFINED}, {CONFINED}]


def test_verification(serving: Pair) -> None:
    assert "proved on spark2" in verification()


def test_a_crash_and_a_hang_are_recovered_from(
    serving: Pair, record_property: Callable[[str, object], None]
) -> None:
    crash = serving.recovery(ENGINE_KILLED.strike)
    hang = serving.recovery(RANK_HANGS.strike)
    if hang >= NOTICED + 1.5 * crash:
        # A start may take longer by now, as others use the machine as well.
        crash = max(crash, serving.recovery(ENGINE_KILLED.strike))
    record_property("measured", f"the head's engine killed: {crash:.0f} s; a hang: {hang:.0f} s")
    assert hang < NOTICED + 1.5 * crash


def test_one_spark_gives_the_same_tokens(serving: Pair) -> None:
    tokens = serving.ask()
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert serving.ask() == tokens
    assert serving.worker.run("sudo docker ps -q").stdout == ""
