"""Two Sparks in states that must be caught, bounded, or changed into another.

The tests of this module build on one another, in order.
"""

import json

import pytest

from tests.e2e.conftest import DEPLOY, background, pyinfra
from tests.e2e.declared import BROKEN, changed, replica, seed
from tests.e2e.events import recovery
from tests.e2e.load import load
from tests.e2e.pairs import received_bytes
from tests.e2e.sparks import current, engines_status, until
from tests.lab import hub

START_LIMIT = 120


@pytest.fixture(scope="module")
def served(pair):
    """A pair that serves, with no restart counted yet."""
    pyinfra(DEPLOY).succeeded()
    pair.forget()


def test_half_of_a_pair_is_no_run(pair, served):
    run = pyinfra(DEPLOY, "--limit", "spark2")
    assert run.status
    assert "found only spark2 in this run" in run.output
    assert run.changed == frozenset()


def test_an_mtu_black_hole_is_caught(pair, served):
    pair.worker.mtu(1500)
    try:
        run = pyinfra("deploys.steps.fabric.apply")
    finally:
        pair.worker.mtu(9000)
    assert run.status
    assert "9000" in run.output
    pair.wait_serving()


def test_another_release_is_refused_by_name(pair, served):
    unit, release, folder = pair.unit(), current(pair.head), "/opt/qwen36/releases"
    pair.worker.run(
        f"sudo systemctl stop {unit} && sudo cp -r {folder}/{release} {folder}/lab-tiny-other && "
        "sudo systemctl start --no-block vllm@lab-tiny-other",
        timeout=120,
    )
    status = f"systemctl show -P StatusText {unit} | grep -q 'spark2 runs release lab-tiny-other'"
    until(pair.head, status, 60)
    other = "vllm@lab-tiny-other"
    pair.worker.run(f"sudo systemctl stop {other} && sudo rm -r {folder}/lab-tiny-other")


def test_restarts_are_bounded(pair, served):
    """A rank that fails at once is tried five times; then both Sparks are idle, and say why."""
    pair.forget()
    unit = pair.unit()
    run = f"/opt/qwen36/releases/{current(pair.head)}/run"
    pair.worker.run(f"printf '#!/bin/sh\\nexit 7\\n' | sudo tee {run}")
    pair.worker.run(f"sudo systemctl start --no-block {unit}")
    until(pair.worker, f"systemctl is-failed {unit}", START_LIMIT)
    # The last of these was refused.
    assert int(pair.worker.run(f"systemctl show -P NRestarts {unit}").stdout) <= 5
    assert "its exit status was 7" in engines_status(pair.worker)
    until(pair.head, f"systemctl show -P StatusText {unit} | grep -q 'waiting for spark2'", 60)
    assert "spark2: its exit status was 7" in pair.head.run(f"sudo journalctl -u {unit}").stdout
    for spark in pair.both:
        assert spark.run("sudo docker ps -q").stdout == ""


def test_a_run_repairs_what_failed(pair, served):
    assert pyinfra(DEPLOY).succeeded().changed == {
        "Engine | Release and unit",
        "Engine | Serve the release",
    }
    pair.wait_serving()
    pair.forget()


def test_nothing_is_half_changed_when_one_cannot_be_reached(pair, served):
    release = current(pair.head)
    pair.worker.power_off()
    with replica(port=8001):
        run = pyinfra(DEPLOY)
    assert run.status
    assert current(pair.head) == release
    assert pair.head.run("ls /opt/qwen36/releases").stdout.split() == [release]


def test_a_spark_that_went_down_hard_twice_boots_without_its_engine(pair, served):
    """The first time was in the test before."""
    unit = pair.unit()
    pair.worker.power_on()
    until(pair.worker, "sudo docker ps -q | grep -q .", START_LIMIT)
    pair.worker.power_off()
    pair.worker.power_on()
    until(pair.worker, f"systemctl is-failed {unit}", 60)
    assert "went down hard twice" in engines_status(pair.worker)
    pair.worker.run(f"sudo systemctl start --no-block {unit}")
    pair.wait_serving()


def test_a_switch_of_both_has_the_gap_of_a_restart(pair, served, record_property):
    """A pair never runs two engines: clients wait as long as for a bare restart of theirs.

    Two such restarts differ by more than a tenth on a busy machine: the slower of two counts.
    """

    def restart(pair):
        for spark in pair.both:
            spark.run(f"sudo systemctl restart --no-block {pair.unit()}")

    before = recovery(pair, restart)
    with load(pair.head) as seen, changed("other", seed(1)):
        run = pyinfra(DEPLOY).succeeded()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert {str(answer.problem)[:3] for answer in seen.failed} == {"503"}
    assert current(pair.head).startswith("lab-other-")
    after = recovery(pair, restart)
    measured = f"a gap of {seen.gap:.0f} s; bare restarts: {before:.0f} and {after:.0f} s"
    record_property("measured", measured)
    assert seen.gap <= 1.1 * max(before, after), run.output


def test_a_release_that_cannot_start_leaves_the_former_one_to_both(pair, served):
    former = current(pair.head)
    with changed("broken", BROKEN):
        run = pyinfra(DEPLOY)
    assert run.status == 1
    assert "does not know a flag" in run.output
    assert current(pair.head) == former
    assert all(pair.lives())
    assert pair.ask()


def test_a_pair_that_shrinks_and_grows_again_swapped(pair, served):
    """One Spark gives the same tokens; nothing is fetched again."""
    tokens, fetched = pair.ask(), json.dumps(hub.stats())
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert pair.ask() == tokens
        assert pair.worker.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    with replica(sparks=["spark2", "spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert type(pair)(pair.worker, pair.head).ask() == tokens
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert json.dumps(hub.stats()) == fetched


def test_a_copy_that_is_cut_is_finished(pair, served):
    """The head loses its power amid the copy of the image; only the rest is copied again."""
    pair.worker.run("sudo systemctl stop 'vllm@*' && sudo docker system prune --all --force")
    before = received_bytes(pair.worker, "enp1s0f0np0")
    for step in ("fabric", "layout", "hf_tools", "weights"):
        pyinfra(f"deploys.steps.{step}.apply").succeeded()
    with background("deploys.steps.image.apply") as run:
        part = "find /opt/qwen36/imports -type f -size +100M | grep -q ."
        until(pair.worker, part, 120)
        pair.head.power_off()
        run.kill()
    pair.head.power_on()
    pair.head.wait_ready()
    pyinfra("deploys.steps.image.apply").succeeded()
    size = int(
        pair.head.run("sudo docker images -q | xargs sudo docker inspect -f {{.Size}}").stdout
    )
    assert size < received_bytes(pair.worker, "enp1s0f0np0") - before < 1.5 * size
