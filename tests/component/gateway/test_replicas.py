"""Requests are shared out, and a replica that is lost is not noticed, as far as that can be."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.component.door.running import haproxy
from tests.component.servers import until
from tests.makers.gateway_clients import (
    CONNECT,
    STREAM,
    ask,
    asked_until,
    curl,
    requests,
    said,
    spread,
)
from tests.makers.gateway_replicas import WORDS, Door

CHAT = "/v1/chat/completions"
pytestmark = [haproxy, pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")]


# Seconds for which this machine's TCP would try to connect: each time twice as long as before.
TCP = 2 ** (int(Path("/proc/sys/net/ipv4/tcp_syn_retries").read_text()) + 1) - 1


def test_a_client_that_leaves_is_forgotten(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    """What it had in flight counts no longer."""
    doors[0].state, doors[1].state = "late", "starts"
    until(lambda: "chat-b does not" in said(started[1]))
    for _ in range(2):
        with subprocess.Popen(curl(url), stdout=subprocess.PIPE) as run:
            assert run.stdout
            assert any(b"two" in line for line in run.stdout)
            run.kill()
    assert [len(door.asked) for door in doors] == [2, 0]
    doors[1].state = "serves"
    until(lambda: said(started[1]) == "in service: chat-a, chat-b")
    until(lambda: spread(url, doors, requests=2) == [1, 1])


@pytest.mark.parametrize("path", requests(stream=False))
@pytest.mark.parametrize("state", ["starts", "gone"])
def test_a_replica_lost_between_requests_is_not_noticed(
    url: str, doors: list[Door], state: str, path: str
) -> None:
    doors[0].state, doors[0].seen = state, False

    def request() -> None:
        assert ask(url, path, **requests(stream=False)[path])[0] == 200

    assert asked_until(doors[0], request) == len(doors[1].asked)


@pytest.mark.parametrize("path", requests(stream=True))
def test_a_replica_lost_before_the_first_token_is_not_noticed(
    url: str, doors: list[Door], path: str
) -> None:
    doors[0].state = "silent"

    def request() -> None:
        status, text = ask(url, path, **requests(stream=True)[path])
        assert (status, all(word in text for word in WORDS)) == (200, True)

    assert asked_until(doors[0], request) == len(doors[1].asked)


def test_a_spark_without_power_is_given_up_soon(url: str, dead: socket.socket) -> None:
    with ExitStack() as stack:
        dead.listen(0)
        for _ in range(4):  # its queue is full: it answers nothing
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(dead.getsockname())
        began = time.monotonic()
        status, _ = ask(url, CHAT, model="dead", messages=STREAM["messages"])
        assert status == 502
        assert CONNECT < time.monotonic() - began < TCP
        dead.shutdown(socket.SHUT_RDWR)


def test_no_replica_left(
    url: str, started: tuple[str, Path], doors: list[Door], sleeper: Door
) -> None:
    # What requests start counts as there, as long as its door is.
    sleeper.state = "gone"
    for door in doors:
        door.state = "starts"
    status, text = ask(url, CHAT, **requests(False)[CHAT])
    assert (status, "the engine starts" in text) == (503, True)
    until(lambda: "in service: none; " in said(started[1]))
    until(lambda: ask(url, "/health", key=None)[0] == 503)


@pytest.mark.parametrize("path", requests(stream=False))
def test_a_request_waits_at_the_last_door_alone(url: str, doors: list[Door], path: str) -> None:
    """At one before it would wait while another replica could answer."""
    for door in doors:
        door.state, door.seen = "starts", False
    assert ask(url, path, **requests(stream=False)[path])[0] == 503
    assert {each.get("prefer") for door in doors for each in door.headers} == {"wait=0", None}


def test_a_door_that_refuses_the_key(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    doors[1].key = "Bearer sk-rotated"
    until(lambda: said(started[1]).endswith(f"({doors[1].url} refuses the key)"))
    assert ask(url, CHAT, **requests(False)[CHAT])[0] == 200


def test_a_replica_lost_in_mid_stream_is_an_error_for_the_client(
    url: str, doors: list[Door], tmp_path: Path
) -> None:
    """No other replica can go on with half an answer; the client is told, and keeps what it has."""
    heard = tmp_path / "heard"
    for door in doors:
        door.state, door.heard = "cut", heard
    with subprocess.Popen(curl(url), stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert any("two" in line for line in run.stdout)
        heard.touch()
        last = run.stdout.read().strip().splitlines()[-1]
    error = json.loads(last.removeprefix("data: "))["error"]
    assert "ended in the middle of its answer" in error["message"]
    assert sum(len(door.asked) for door in doors) == 1
