"""Two Sparks that serve one model: from the factory to an answer, with everything fetched once.

The tests of this module build on one another, in order: a deploy takes two minutes.
"""

import pytest

from deploys.plan.fabric import MASTER_PORT
from deploys.plan.lock import lock_path, read_lock
from tests.e2e.client import PORT
from tests.e2e.conftest import DEPLOY, pyinfra, verification
from tests.e2e.pairs import received_bytes
from tests.lab import hub, services
from tests.lab.state import FLEET

# Bytes that the lab's engine image has at the least, as its registry packs it.
IMAGE = 250_000_000


@pytest.fixture(scope="module")
def planned(delivered):
    """What a dry run on two clean Sparks says would change."""
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def served(pair, planned):
    """The run that takes two clean Sparks to one served model."""
    return pyinfra(DEPLOY).succeeded()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda worker: worker.cable(port=1), "enp1s0f1np1"),
        (lambda worker: worker.cable(False, twin="b"), "enP2p1s0f0np0"),
        (lambda worker: worker.cable(False), "has no ConnectX port with a link"),
        (lambda worker: worker.reset("foreign-netplan"), "sudo mv /etc/netplan/40-cx7.yaml"),
        (lambda worker: worker.reset("address-clash"), "fabric_subnets"),
        (lambda worker: worker.reset("driver-580.95"), "580.95.05 on spark2"),
    ],
    ids=["other port", "one twin", "no cable", "foreign netplan", "address clash", "driver"],
)
def test_what_is_caught_before_any_change(pair, fault, reason):
    pair.worker.reset()
    fault(pair.worker)
    run = pyinfra(DEPLOY)
    assert run.status
    assert reason in run.output
    assert run.changed == frozenset()
    for spark in pair.both:
        assert spark.run("ls /opt").stdout == ""
        assert "60-sparkwright" not in spark.run("ls /etc/netplan").stdout


def test_from_factory_to_served(pair, served):
    assert pair.ask()
    assert all(pair.lives())


def test_dry_run_said_what_the_real_run_did(planned, served):
    assert planned == served.changed


def test_weights_and_image_crossed_the_lan_once(pair, served):
    """From hub and registry to the head, and from there by the fabric to the worker."""
    checkpoints = read_lock(lock_path(FLEET)).checkpoints.values()
    weights = sum(checkpoint.size for checkpoint in checkpoints)
    # Making the lock reads each config.json, too.
    read = sum(checkpoint.files["config.json"].size for checkpoint in checkpoints)
    assert sum(seen["bytes"] for seen in hub.stats().values()) == weights + read
    assert received_bytes(pair.worker, "enP7s7") < IMAGE / 2 < received_bytes(pair.head, "enP7s7")
    assert received_bytes(pair.worker, "enp1s0f0np0") > weights + IMAGE


def test_second_run_changes_nothing(pair, served):
    before = pair.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    assert pair.lives() == before


def test_the_rendezvous_is_closed_on_the_lan(pair, served):
    """vLLM listens for its ranks on all addresses."""
    listening = pair.head.run(f"ss -Hltn sport = :{MASTER_PORT}").stdout
    assert "0.0.0.0" in listening or "*" in listening
    assert not services.answers(pair.head.address, MASTER_PORT)
    assert services.answers(pair.head.address, PORT)


def test_verification(pair, served):
    assert "proved on spark2" in verification()
