"""Two Sparks that serve one model, in states that must be caught, bounded or mended.

The tests build on one another, in order.
"""

from tests.driver.pairs import Pair, received_bytes
from tests.driver.product import DEPLOY, background, pyinfra
from tests.driver.sparks import current, engines_status, until

FABRIC = "enp1s0f0np0"


def test_an_mtu_black_hole_is_caught(serving: Pair) -> None:
    serving.worker.mtu(1500)
    try:
        run = pyinfra("sparkwright.network.fabric.deploy.apply")
    finally:
        serving.worker.mtu(9000)
    assert run.status
    assert "9000" in run.output
    serving.wait_serving()


def test_a_pair_stops_and_starts_together(serving: Pair) -> None:
    before = serving.lives()
    assert pyinfra("deploys/stop.py").succeeded().changed == {"Engine | Stop"}
    assert [spark.run("sudo docker ps -q").stdout for spark in serving.both] == ["", ""]
    assert pyinfra("deploys/stop.py").succeeded().changed == set()
    assert pyinfra("deploys/start.py").succeeded().changed == {"Engine | Start"}
    serving.wait_serving(before)
    assert pyinfra("deploys/start.py").succeeded().changed == set()


def test_restarts_are_bounded(serving: Pair) -> None:
    """A rank that fails at once is tried five times; then both Sparks are idle, and say why."""
    serving.forget()
    unit = serving.unit()
    run = f"/opt/qwen36/releases/{current(serving.head)}/run"
    serving.worker.run(f"sudo systemctl stop {unit}")
    serving.worker.run(f"printf '#!/bin/sh\\nexit 7\\n' | sudo tee {run}")
    serving.worker.run(f"sudo systemctl start --no-block {unit}")
    until(serving.worker, f"systemctl is-failed {unit}", 180)
    # The last of these was refused.
    assert int(serving.worker.run(f"systemctl show -P NRestarts {unit}").stdout) <= 5
    assert "its exit status was 7" in engines_status(serving.worker)
    waiting = f"systemctl show -P StatusText {unit} | grep -q 'waiting for spark2'"
    until(serving.head, waiting)
    assert "spark2: its exit status was 7" in serving.head.run(f"sudo journalctl -u {unit}").stdout
    for spark in serving.both:
        assert spark.run("sudo docker ps -q").stdout == ""


def test_a_run_repairs_what_failed(serving: Pair) -> None:
    assert pyinfra(DEPLOY).succeeded().changed == {
        "Engine | Release and unit",
        "Engine | Serve the release",
    }
    serving.wait_serving()
    serving.forget()


def test_a_copy_that_is_cut_is_finished(serving: Pair) -> None:
    """The head loses its power amid the copy of the image; the next run copies it again."""
    serving.worker.run("sudo systemctl stop 'vllm@*' && sudo docker system prune --all --force")
    before = received_bytes(serving.worker, FABRIC)
    sizes = "docker image ls -q '*/*/vllm-cpu' | xargs docker inspect -f {{.Size}}"
    size = int(serving.head.run(f'sudo sh -c "{sizes}"').stdout)
    # Or it would be over before anybody has seen it; a boot makes the link quick again.
    slow = "root tbf rate 100mbit burst 256kb latency 1s"
    serving.head.run(f"sudo tc qdisc add dev {FABRIC} {slow}")
    try:
        with background("sparkwright.artifacts.image.deploy.apply"):
            received = f"/sys/class/net/{FABRIC}/statistics/rx_bytes"
            until(serving.worker, f"[ $(cat {received}) -gt {before + size // 4} ]")
    finally:
        serving.head.power_off()
        serving.head.power_on()
    serving.head.wait_ready()
    pyinfra("sparkwright.artifacts.image.deploy.apply").succeeded()
    assert size < received_bytes(serving.worker, FABRIC) - before < 2 * size
    assert serving.worker.run("sudo docker image ls -q '*/*/vllm-cpu'").stdout
