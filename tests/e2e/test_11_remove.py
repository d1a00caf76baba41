"""From the factory to a served model and back: two Sparks are afterwards what they were before.

What they lived through in the modules before is to leave no trace either. The tests build on one
another, in order.
"""

import pytest

from tests.e2e.conftest import DEPLOY, pyinfra
from tests.e2e.listing import changes, listing

REMOVE = "deploys/remove.py"


@pytest.fixture(scope="module")
def served(pair, delivered) -> None:
    """The deploy has made a served model of them."""
    pyinfra(DEPLOY).succeeded()
    assert pair.ask()
    assert "8000/tcp" in pair.head.run("sudo ufw show added").stdout


def test_a_dry_run_shows_what_goes_and_what_stays(pair, served):
    run = pyinfra(REMOVE, "--dry").succeeded()
    assert run.plan
    assert "goes: units: " in run.output
    assert "stays: weights: /opt/qwen36/tiny@" in run.output
    assert "stays: /opt/qwen36/mine" in run.output
    assert pair.ask()


def test_a_slip_removes_no_weights(served):
    run = pyinfra(REMOVE, "--data", "weights=all")
    assert run.status == 1
    assert "--data weights: found 'all'; expected remove" in run.output
    assert run.changed == frozenset()


def test_weights_stay_and_the_rest_goes(pair, delivered, served):
    planned = pyinfra(REMOVE, "--dry").plan
    assert pyinfra(REMOVE).succeeded().changed == planned
    for spark, before in zip(pair.both, delivered, strict=True):
        left = changes(before, listing(spark))
        weights = left.pop("files")
        assert left == {}
        assert all(" opt/qwen36/" in line for line in weights), weights
        assert any(line.endswith(".safetensors") for line in weights)


def test_a_second_run_changes_nothing(served):
    assert pyinfra(REMOVE).succeeded().changed == frozenset()


def test_weights_go_when_asked(pair, delivered, served):
    pyinfra(REMOVE, "--data", "weights=remove").succeeded()
    for spark, before in zip(pair.both, delivered, strict=True):
        assert changes(before, listing(spark)) == {}
