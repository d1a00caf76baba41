"""Those who ask the gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.makers.gateway import KEYS
from tests.makers.gateway_replicas import Door

Client = Callable[[str, str], Any]
# Seconds until a Spark without power is given up, here.
CONNECT = patience(1)
STREAM = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}

# A client that runs the code that comes in, a line of JSON each; the code prints JSON.
CLIENT = f"""
import json, sys, openai
sys.stdout.reconfigure(line_buffering=True)
user = [{{"role": "user", "content": "hello"}}]
for line in sys.stdin:
    url, code = json.loads(line)
    client = openai.OpenAI(base_url=url + "/v1", api_key={KEYS[1]!r}, max_retries=0)
    exec(code)
"""


def ask(
    url: str, path: str, key: str | None = KEYS[1], trust: SSLContext | None = None, **body: Any
) -> tuple[int, str]:
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if body else None
    try:
        asked = Request(url + path, data, headers)
        with urlopen(asked, timeout=patience(), context=trust) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


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
