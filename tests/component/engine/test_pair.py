"""Two Sparks: they start in order, and end together."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.engine.sparks import (
    HANGS,
    NAMES,
    RELEASE,
    Spark,
    group,
    identify,
    serve,
    take_turns,
    trust,
)
from tests.component.servers import listens, until

Pair = tuple[Spark, Spark]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Head and worker, which trust each other."""
    head, worker = group(tmp_path, 2)
    yield head, worker
    for spark in (head, worker):
        spark.close()


def test_the_worker_starts_first_and_both_serve_until_the_head_is_stopped(pair: Pair) -> None:
    head, worker = pair
    worker.start()
    worker.wait_status("waiting for spark-a at 127.0.0.11: its engine is not started")
    worker.live_on()
    assert not (worker.state / "container").exists()
    assert worker.log.count("its engine is not started") == 1
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    head.start()
    head.wait_status("waiting for spark-b at 127.0.0.12: nothing heard yet")
    worker.start()
    for spark in pair:
        spark.wait_ready()
        spark.wait_status("serving")
    assert (head.root.parent / "starts").read_text().split() == ["spark-b", "spark-a"]
    assert worker.environment["VLLM_HOST_IP"] == "127.0.0.12"
    assert worker.environment["NCCL_SOCKET_IFNAME"] == "enp1s0f0np0"
    assert worker.environment["NCCL_IB_DISABLE"] == "1"
    assert worker.environment["RDMA_OPTIONS"] == ""
    assert "warning: no active RDMA device on enp1s0f0np0, enP2p1s0f0np0" in worker.log
    head.signal(signal.SIGTERM)
    assert head.end() == 0
    assert worker.end() == 1
    assert f"stop -t 5 vllm-{RELEASE}" in head.docker
    assert worker.status == "engine ended: spark-a: it was stopped"


# Each of the two ends: tests/system/test_recovery.py has either of them.
@pytest.mark.parametrize(
    ("which", "reason"), [(0, "its exit status was -9"), (1, "its supervisor is gone")]
)
def test_one_ends_and_so_does_the_other(pair: Pair, which: int, reason: str) -> None:
    serve(pair)
    one, other = pair[which], pair[1 - which]
    killed = "supervisor" in reason
    one.signal(signal.SIGKILL) if killed else os.kill(one.container, signal.SIGKILL)
    assert other.end() == 1
    assert other.status == f"engine ended: {NAMES[which]}: {reason}"
    if not killed:
        assert one.end() == 1
        # The next lives of both meet again.
        serve(pair)


def test_where_models_take_turns_the_worker_asks_for_its_place_and_gives_it_back(
    pair: Pair,
) -> None:
    head, worker = pair
    take_turns(pair)
    run = worker.root / "run"
    asks, go, back = (run / f"{RELEASE}.{word}" for word in ("asks", "go", "back"))
    for spark in pair:
        spark.start()
    until(asks.exists)
    worker.live_on()
    # The memory has another engine still: neither has a container.
    assert not (head.root.parent / "starts").exists()
    go.touch()
    for spark in pair:
        spark.wait_ready()
    assert (head.root.parent / "starts").read_text().split() == ["spark-b", "spark-a"]
    (head.root / "run").mkdir()
    back.touch()
    until((head.root / f"run/{RELEASE}.back").exists)
    # Its loop has it stopped, when its answers have ended.
    head.signal(signal.SIGTERM)
    assert (head.end(), worker.end()) == (0, 1)
    assert [*run.iterdir()] == []


def test_silence_is_a_loss(pair: Pair) -> None:
    serve(pair, **{"peer_link.SILENCE": patience(3)})
    head, frozen = pair
    frozen.signal(signal.SIGSTOP)
    assert head.end() == 1
    assert f"no word for {patience(3):g} s" in head.status
    frozen.signal(signal.SIGCONT)
    assert frozen.end() == 1


def test_a_silent_fabric_is_sat_out(pair: Pair) -> None:
    """A cable that is put back in time ends nothing: no token comes, and no word of the other."""
    head, worker = pair
    serve(pair, **HANGS | {"peer_link.QUIET": patience(0.3)})
    worker.signal(signal.SIGSTOP)
    head.set("hang")
    looks = head.asked.count("metrics")
    until(lambda: head.asked.count("metrics") > looks + 5)
    head.set("hang", False)
    worker.signal(signal.SIGCONT)
    answered = head.asked.count("200")
    until(lambda: head.asked.count("200") > answered)
    for spark in pair:
        spark.live_on()
        spark.lives_on()
    # As soon as the other one is heard again, it is the engine's own hang.
    head.set("hang")
    assert [spark.end() for spark in pair] == [1, 1]
    assert worker.status.startswith("engine ended: spark-a: no token within")


def test_a_stop_of_the_worker_lets_the_head_drain(pair: Pair) -> None:
    """Within the head's own bound, however short: what it answers last still needs both engines."""
    head, worker = pair
    for spark in pair:
        spark.unit(stop_timeout=0)
    serve(pair)
    head.set("draining")
    worker.signal(signal.SIGTERM)
    until(lambda: f"stop -t 0 vllm-{RELEASE}" in head.docker)
    worker.live_on()
    assert worker.container_lives
    head.set("draining", False)
    assert worker.end() == 0
    assert head.end() == 1
    assert f"stop -t 0 vllm-{RELEASE}" not in worker.docker
    assert f"kill vllm-{RELEASE}" not in head.docker
    assert head.status == "engine ended: spark-b: it was stopped"


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_worker_that_is_lost_cannot_be_drained(pair: Pair, stopped: int) -> None:
    head, worker = pair
    serve(pair)
    head.set("draining")
    pair[stopped].signal(signal.SIGTERM)
    until(lambda: f"stop -t 5 vllm-{RELEASE}" in head.docker)
    worker.signal(signal.SIGKILL)
    assert head.end() == stopped
    assert f"kill vllm-{RELEASE}" in head.docker


def test_a_command_line_that_the_worker_refuses(pair: Pair) -> None:
    head, worker = pair
    worker.set("status", text="2")
    for spark in pair:
        spark.start()
    assert worker.end() == 2
    assert head.end() == 1
    assert "spark-b: its exit status was 2: vLLM refuses its command line" in head.status


@pytest.mark.parametrize("which", [0, 1])
def test_a_certificate_that_is_not_pinned_is_refused(pair: Pair, which: int) -> None:
    identify(pair[which])
    other = pair[1 - which]
    for spark in pair:
        spark.start()
    other.wait_status("it shows a certificate other than the pinned one: run")
    pair[which].wait_status("waiting for")
    other.live_on()
    assert not (other.state / "container").exists()
    # A deploy brings the new one: nothing needs a restart.
    trust(other, pair[which])
    for spark in pair:
        spark.wait_ready()


def test_no_key_yet(pair: Pair) -> None:
    (pair[0].root / "secrets/link.key").unlink()
    for spark in pair:
        spark.start()
    pair[0].wait_status("secrets/link.key, link/own.crt or link/peer.crt is missing: run")


def test_waits_for_its_own_addresses(pair: Pair) -> None:
    worker = pair[1]
    links = json.loads((worker.state / "links").read_text())
    worker.set("links", text="[]")
    for spark in pair:
        spark.start()
    worker.wait_status("waiting for 127.0.0.12 and 127.0.0.22 on this Spark: is the cable in?")
    worker.set("links", text=json.dumps(links))
    for spark in pair:
        spark.wait_ready()


def test_strangers_and_noise_do_not_keep_the_worker_out(pair: Pair) -> None:
    head, worker = pair
    head.start(**{"peer_link.GREETING": patience(2)})
    head.wait_status("nothing heard yet")
    where = ("127.0.0.11", head.link_port)
    until(lambda: listens(head.link_port, "127.0.0.11"))
    with socket.create_connection(where, source_address=("127.0.0.1", 0)) as stranger:
        assert stranger.recv(1) == b""
    with socket.create_connection(where, source_address=("127.0.0.12", 0)) as noise:
        noise.sendall(b"GET / HTTP/1.0\r\n\r\n")
        head.wait_status("waiting for spark-b at 127.0.0.12: TLS: ")
    with socket.create_connection(where, source_address=("127.0.0.12", 0)):
        head.wait_status("waiting for spark-b at 127.0.0.12: no answer")
    worker.start()
    for spark in pair:
        spark.wait_ready()
