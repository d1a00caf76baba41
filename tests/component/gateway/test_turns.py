"""The gateway before models that requests start."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.servers import until
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import STREAM, ask
from tests.makers.gateway_replicas import Door

CHAT = "/v1/chat/completions"
pytestmark = haproxy


@pytest.fixture(autouse=True)
def stopped(sleeper: Door) -> None:
    sleeper.state = "starts"
    sleeper.headers.clear()


def post(url: str, key: str, model: str = "sleepy") -> tuple[int, str]:
    return ask(url, CHAT, key, model=model, messages=STREAM["messages"])


def states(url: str) -> dict[str, str]:
    listed = json.loads(ask(url, "/v1/models")[1])["data"]
    return {each["id"]: each["state"] for each in listed}


def test_every_name_is_listed_with_its_state(url: str, sleeper: Door) -> None:
    until(lambda: states(url)["sleepy"] == "stopped")
    found = states(url)
    assert (found["tiny"], found["dead"], found["both"]) == ("serving", "down", "stopped")
    # A look is a GET, which no door holds.
    assert sleeper.headers == []
    sleeper.state = "serves"
    until(lambda: states(url)["sleepy"] == "serving")


def test_a_look_under_way_changes_no_state(url: str, sleeper: Door) -> None:
    until(lambda: states(url)["sleepy"] == "stopped")
    sleeper.ready.clear()
    sleeper.looked.clear()
    assert sleeper.looked.wait(patience())
    assert states(url)["sleepy"] == "stopped"
    sleeper.ready.set()


def test_a_request_wakes_what_rests_rather_than_what_is_lost(
    url: str, sleeper: Door, dead: socket.socket
) -> None:
    until(lambda: states(url)["both"] == "stopped")
    status, text = post(url, KEYS[0], "both")
    assert (status, "the engine starts" in text) == (503, True)
    assert [each.get("prefer") for each in sleeper.headers] == [None]


def test_a_key_wakes_only_what_it_may_ask(
    url: str, sleeper: Door, started: tuple[str, Path]
) -> None:
    until(lambda: states(url)["sleepy"] == "stopped")
    status, text = post(url, KEYS[1])
    assert (status, "rests is stopped, and this key does not start it" in text) == (403, True)
    assert [each.get("prefer") for each in sleeper.headers] == ["wait=0"]
    # It may ask what another key has started.
    sleeper.state = "serves"
    assert post(url, KEYS[1])[0] == 200
