"""Two Sparks that serve one model: from the factory to an answer, with everything fetched once.

The tests of this module build on one another, in order: a deploy takes two minutes.
"""

import subprocess
import sys

import pytest

from deploys.plan.lock import lock_path, read_lock
from tests.e2e.conftest import DEPLOY, PROJECT, env, pyinfra
from tests.lab import hub
from tests.lab.spark import Handle
from tests.lab.state import FLEET

# Bytes that the lab's engine image has at the least, as its registry packs it.
IMAGE = 250_000_000


@pytest.fixture(scope="module")
def planned(pair):
    """What a dry run on two clean Sparks says would change."""
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def served(pair, planned):
    """The run that takes two clean Sparks to one served model."""
    return pyinfra(DEPLOY).succeeded()


def received(spark: Handle, port: str) -> int:
    """Return the bytes that a Spark's port has received since it booted."""
    return int(spark.run(f"cat /sys/class/net/{port}/statistics/rx_bytes").stdout)


def test_from_factory_to_served(pair, served):
    assert pair.ask()
    assert all(pair.lives())


def test_dry_run_said_what_the_real_run_did(planned, served):
    assert planned == served.changed


def test_weights_and_image_crossed_the_lan_once(pair, served):
    """From hub and registry to the head, and from there by the fabric to the worker."""
    weights = sum(
        file.size
        for checkpoint in read_lock(lock_path(FLEET)).checkpoints.values()
        for file in checkpoint.files.values()
    )
    assert sum(seen["bytes"] for seen in hub.stats().values()) == weights
    assert received(pair.worker, "enP7s7") < IMAGE / 2 < received(pair.head, "enP7s7")
    assert received(pair.worker, "enp1s0f0np0") > weights + IMAGE


def test_second_run_changes_nothing(pair, served):
    before = pair.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    assert pair.lives() == before


def test_verification(pair, served):
    verify = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/verify", "--inventory", "inventory/lab.py"],
        cwd=PROJECT,
        env=env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert verify.returncode == 0, verify.stdout
    assert "proved on spark2" in verify.stdout
