"""Those who ask the gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPMessage
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.makers.gateway import KEYS
from tests.makers.gateway_replicas import Door

# Seconds until a Spark without power is given up, here.
CONNECT = patience(1)
STREAM = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


def exchanged(
    url: str,
    path: str,
    text: bytes | None,
    key: str | None = KEYS[1],
    kind: str = "application/json",
    **head: str,
) -> tuple[int, str, HTTPMessage]:
    """Ask for a path, or post a text to it; return status, body and head of the answer."""
    head |= {"Content-Type": kind} | ({"Authorization": f"Bearer {key}"} if key else {})
    client = HTTPConnection(urlsplit(url).netloc, timeout=patience())
    client.request("GET" if text is None else "POST", path, text, head)
    answer = client.getresponse()
    found = answer.status, answer.read().decode(), answer.headers
    client.close()
    return found


def ask(url: str, path: str, key: str | None = KEYS[1], **body: Any) -> tuple[int, str]:
    return exchanged(url, path, json.dumps(body).encode() if body else None, key)[:2]


def requests(stream: bool) -> dict[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "hello"}]
    common: dict[str, Any] = {"model": "tiny-thinking-coding"} | (
        {"stream": True} if stream else {}
    )
    return {
        "/v1/chat/completions": {**common, "messages": messages},
        "/v1/completions": {**common, "prompt": "hello"},
        "/v1/messages": {**common, "messages": messages, "max_tokens": 9},
        "/v1/responses": {**common, "input": "hello"},
    }


def curl(url: str) -> Sequence[str]:
    headers = [f"authorization: Bearer {KEYS[1]}", "content-type: application/json"]
    options = chain(*(("--header", header) for header in headers))
    target = f"{url}/v1/chat/completions"
    return ["curl", "--silent", "--no-buffer", *options, "--data", json.dumps(STREAM), target]


def spread(url: str, doors: list[Door], requests: int) -> list[int]:
    """How many of so many requests, all in flight at a time, each replica gets."""
    for door in doors:
        door.state = "late"
        door.go.clear()
        door.asked.clear()
    threads = [
        threading.Thread(target=ask, args=(url, "/v1/chat/completions"), kwargs=STREAM)
        for _ in range(requests)
    ]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until(lambda now=number: sum(len(door.asked) for door in doors) == now)  # type: ignore[misc]
    found = [len(door.asked) for door in doors]
    for door in doors:
        door.go.set()
    for thread in threads:
        thread.join()
    return found


def asked_until(door: Door, request: Callable[[], None]) -> int:
    """Repeat a request until a door has been asked: which is asked first is chance. How often."""
    for times in range(1, 21):
        request()
        if door.asked:
            return times
    pytest.fail("it was asked by none of 20 requests")


def said(log: Path) -> str:
    """What the gateway said last of its replicas, but for the dead one."""
    lines = (line for line in reversed(log.read_text().splitlines()) if "in service: " in line)
    return next(lines).partition("; dead does not (no answer from ")[0]
