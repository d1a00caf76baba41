"""The gateway under attack: by those who have no key, and by what a request may say."""

import http.client
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from host.door.gateway.body import EACH
from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.servers import until
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import ask, exchanged, requests, said
from tests.makers.gateway_replicas import Door
from tests.security.attacks import (
    CLIENT,
    CONNECTIONS,
    FIRST_TOKEN,
    attack,
    attacked,
    median,
    median_attacked,
)

pytestmark = [haproxy, pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")]
CHAT = "/v1/chat/completions"
MARK = "a-secret-of-this-prompt"


def body(path: str = CHAT, stream: bool = False) -> dict[str, object]:
    return requests(stream)[path]


def posted(
    url: str, path: str, text: bytes, key: str = KEYS[0], kind: str = "text/plain"
) -> tuple[int, str]:
    return exchanged(url, path, text, key, kind)[:2]


@pytest.mark.parametrize("kind", ["silent", "head", "body", "garbage"])
def test_a_client_with_a_key_gets_its_first_token_as_without_the_attack(
    url: str, doors: list[Door], kind: str
) -> None:
    address = urlsplit(url)
    assert address.port

    def first_token() -> None:
        client = http.client.HTTPConnection(
            str(address.hostname), address.port, timeout=patience(), source_address=(CLIENT, 0)
        )
        head = {"Authorization": f"Bearer {KEYS[1]}", "Content-Type": "application/json"}
        client.request("POST", CHAT, json.dumps(body(stream=True)), head)
        answer = client.getresponse()
        assert answer.status == 200
        assert answer.read1(1)
        client.close()

    for door in doors:
        door.pause = FIRST_TOKEN
    calm = median(first_token)
    with attack(address.port, kind) as under_way:
        attacked = median_attacked(first_token, calm)
    print(f"{kind}: {calm * 1000:.0f} ms, attacked {attacked * 1000:.0f} ms")
    assert under_way.tried >= CONNECTIONS
    assert attacked < 1.5 * calm


def test_a_door_whose_answer_has_no_end_is_looked_at_like_others(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    doors[0].state = "endless"
    for state, found in (("starts", "chat-a; chat-b does not"), ("serves", "chat-a, chat-b")):
        doors[1].state = state
        until(lambda found=found: said(started[1]).startswith(f"in service: {found}"))


def chat(content: object, **more: object) -> dict[str, object]:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize("name", [None, 1, ["tiny"], {"tiny": 1}, MARK, MARK * 1000, "", "\n"])
def test_no_model_by_a_strange_name(
    url: str, started: tuple[str, Path], doors: list[Door], name: object
) -> None:
    status, text = posted(url, CHAT, json.dumps(chat(MARK, model=name)).encode())
    assert (status, json.loads(text)["error"]["param"]) == (400, "model")
    assert len(text) < 1000
    assert [door.asked for door in doors] == [[], []]
    assert MARK not in started[1].read_text()


def test_a_door_leads_nowhere_else(url: str, doors: list[Door]) -> None:
    """Neither by a redirect, with the gateway's key, nor by what it has clients remember."""
    for door in doors:
        door.state = "leads"
    for _ in range(2):
        status, _, head = exchanged(url, CHAT, json.dumps(body()).encode())
        assert status == 307
        assert not {"location", "set-cookie"} & {name.lower() for name in head}
    assert sum(len(door.asked) for door in doors) == 2
    assert not any("cookie" in each for door in doors for each in door.headers)


def test_a_stream_without_lines_or_end_fills_no_memory(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    """Its client takes nothing either; once that has gone, so has the request at the door."""
    for door in doors:
        door.state, door.broken = "flood", threading.Event()
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as client:
        text = json.dumps(body(stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS[1]}\r\n"
        client.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
        until(lambda: any(door.asked for door in doors))
        assert client.recv(1)
        before = memory(started[1])
        time.sleep(1)
        assert memory(started[1]) < before + (16 << 20)
        assert not any(door.broken.is_set() for door in doors)
    until(lambda: any(door.broken.is_set() for door in doors))


def memory(log: Path) -> int:
    """Bytes that the gateway has in memory; its number is beside what it prints."""
    status = Path(f"/proc/{log.with_name('pid').read_text()}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("state", ["gone", "silent", "starts", "strange"])
def test_no_prompt_is_in_the_journal_whatever_the_replicas_do(
    url: str, started: tuple[str, Path], doors: list[Door], state: str, stream: bool
) -> None:
    for door in doors:
        door.state, door.seen = state, False
    for path, request in requests(stream).items():
        posted(url, path, json.dumps(request).replace("hello", MARK).encode())
    more: dict[str, dict[str, object]] = {
        "/v1/embeddings": {"model": "tiny-texts", "input": MARK},
        "/v1/rerank": {"model": "tiny-scores", "query": MARK, "documents": [MARK]},
    }
    for path, request in more.items():
        posted(url, path, json.dumps(request).encode())
    assert len({path for door in doors for path, _ in door.asked}) == 6
    assert MARK not in started[1].read_text()


def deep(levels: int) -> bytes:
    return b'{"response_format": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", ""])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no JSON"),
        (b"model=tiny&api_base=http://127.0.0.1:9", "no JSON"),
        (b"[]", "no JSON"),
        (b'"tiny"', "no JSON"),
        (b"null", "no JSON"),
        (b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff"}]}', "no JSON"),
        (b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud800"}]}', "no JSON"),
        (b'{"model": "tiny", "seed": ' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"model": "tiny", "temperature": 1e999}', "no JSON"),
        (b'{"model": "tiny", "temperature": NaN}', "no JSON"),
        (deep(100_000), "no JSON"),
        (b'{"stop": ["' + b'","' * 310_000 + b'"]}', "values"),
        (b'{"stop": ' + b"[]," * 310_000 + b"[]}", "values"),
        (b'"' * 1_000_000, "no JSON"),
        (b'{"stop": "' + b'\\"' * 400_000, "no JSON"),
        (b'{"stop": "' + b"\\" * 400_001, "no JSON"),
        ('{"model": "tiny"}'.encode("utf-16"), "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (bytes(100_000), "no JSON"),
    ],
)
def test_a_body_that_is_none_or_costs_more_than_it_says(
    url: str, started: tuple[str, Path], doors: list[Door], text: bytes, why: str, kind: str
) -> None:
    status, said = posted(url, CHAT, text, kind=kind)
    assert (status, why in json.loads(said)["error"]["message"]) == (400, True), said
    assert [door.asked for door in doors] == [[], []]
    assert "Error at" not in started[1].read_text()


def largest() -> Iterator[tuple[str, bytes]]:
    """Yield what is allowed at the most: a megabyte at this door."""
    yield "/v1/completions", json.dumps({"model": "tiny", "prompt": [123] * 200_000}).encode()
    yield CHAT, json.dumps(chat("word " * 209_000)).encode()
    yield CHAT, b'{"model": "tiny", "messages": [' + b"{}," * 290_000 + b"{}]}"


def test_a_large_request_of_one_client_does_not_stop_another(url: str) -> None:
    def waits(done: threading.Event) -> float:
        worst = 0.0
        while not done.is_set():
            began = time.monotonic()
            assert ask(url, CHAT, key=KEYS[1], **body())[0] == 200
            worst = max(worst, time.monotonic() - began)
        return worst

    def meanwhile(action: Callable[[], object]) -> float:
        done = threading.Event()
        with ThreadPoolExecutor() as pool:
            found = pool.submit(waits, done)
            action()
            done.set()
            return found.result()

    calm = meanwhile(lambda: [ask(url, CHAT, **body()) for _ in range(20)])
    for path, text in largest():
        post = partial(posted, url, path, text)
        worst = attacked(partial(meanwhile, post), lambda found: found < 6 * calm)
        print(f"{len(text)} bytes: another waits {worst * 1000:.0f} ms, calm {calm * 1000:.0f} ms")
        assert worst < 6 * calm


def test_a_key_has_a_share_of_what_is_in_flight(url: str, doors: list[Door]) -> None:
    """As many large requests as there may be get no answer yet; another key's client is served."""
    for door in doors:
        door.state = "late"
    text = json.dumps(chat("x" * 1_000_000, stream=True)).encode()
    fit, more = EACH // len(text), 3
    with ThreadPoolExecutor(fit + more + 1) as pool:
        found = [pool.submit(posted, url, CHAT, text) for _ in range(fit + more)]
        until(lambda: sum(each.done() for each in found) == more)
        assert [each.result()[0] for each in found if each.done()] == [429] * more
        small = json.dumps(body(stream=True)).encode()
        other = pool.submit(posted, url, CHAT, small, KEYS[1])
        until(lambda: sum(len(door.asked) for door in doors) == fit + 1)
        for door in doors:
            door.go.set()
        assert other.result()[0] == 200
        assert [each.result()[0] for each in found].count(200) == fit
