"""The gateway under attack: by those who have no key, and by what a request may say."""

import http.client
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from host.door.gateway.body import EACH, VALUE, VALUES
from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.servers import until
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import ask, requests, said
from tests.makers.gateway_replicas import Door
from tests.security.attacks import CLIENT, CONNECTIONS, FIRST_TOKEN, attack, median

pytestmark = [haproxy, pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")]
CHAT = "/v1/chat/completions"
# What LiteLLM, its router and its proxy would obey.
ORDERS = """
additional_drop_params allowed_openai_params api_base api_key api_version azure_ad_token base_url
cache callbacks client custom_llm_provider default_headers drop_params extra_body extra_headers
extra_query fallbacks force_timeout guardrails headers input_cost_per_token litellm_call_id
litellm_metadata litellm_params litellm_session_id litellm_trace_id logger_fn max_retries
mcp_servers mock_response model_info model_list no-log num_retries organization prompt_id
prompt_variables proxy_server_request router secret_fields specific_deployment
success_callback tags timeout user_config use_litellm_proxy vertex_credentials
"""


def body(path: str = CHAT, stream: bool = False) -> dict[str, object]:
    return requests(stream)[path]


def tracebacks(started: tuple[str, Path]) -> int:
    return started[1].read_text().count("Traceback")


def posted(
    url: str, path: str, text: bytes, key: str = KEYS[0], kind: str = "text/plain"
) -> tuple[int, bytes]:
    """Post a body; return status and answer."""
    address = urlsplit(url)
    client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=patience())
    head = {"Authorization": f"Bearer {key}", "Content-Type": kind}
    client.request("POST", path, text, head)
    answer = client.getresponse()
    found = answer.status, answer.read()
    client.close()
    return found


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
        attacked = median(first_token)
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


@pytest.mark.parametrize("name", ORDERS.split())
def test_a_request_gives_no_orders(
    url: str, started: tuple[str, Path], doors: list[Door], name: str
) -> None:
    before = tracebacks(started)
    for path in requests(stream=False):
        for value in ("http://127.0.0.1:9", True, {"Host": "evil"}, ["x"], 0):
            status, text = ask(url, path, **{**body(path), name: value})
            error = json.loads(text)["error"]
            assert (status, error["param"]) == (400, name)
            assert error["message"].startswith(f"unknown field: {name}.")
    assert [door.asked for door in doors] == [[], []]
    assert tracebacks(started) == before


@pytest.mark.parametrize("path", requests(stream=False))
def test_what_clients_say_of_themselves_goes_no_further(
    url: str, started: tuple[str, Path], doors: list[Door], path: str
) -> None:
    """Claude Code sends its user's number in `metadata`, which LiteLLM takes for its own."""
    before = tracebacks(started)
    said = {"metadata": {"user_id": "u-1"}, "store": True, "service_tier": "auto", "api_base": None}
    assert ask(url, path, **{**body(path), **said})[0] == 200
    ((_, found),) = doors[0].asked + doors[1].asked
    assert not said.keys() & found.keys()
    assert tracebacks(started) == before


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", ""])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"model=tiny&api_base=http://127.0.0.1:9",
        b"[]",
        b'"tiny"',
        b"null",
        b'{"model": "tiny", "n": NaN}',
        b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff"}]}',
    ],
)
def test_a_body_that_is_none(
    url: str, started: tuple[str, Path], doors: list[Door], text: bytes, kind: str
) -> None:
    before = tracebacks(started)
    status, said = posted(url, CHAT, text, kind=kind)
    assert status == 400
    assert json.loads(said)["error"]["message"] == "the body is no JSON object"
    assert [door.asked for door in doors] == [[], []]
    assert tracebacks(started) == before


MARK = "a-secret-of-this-prompt"
FAR = f"http://192.0.2.1/{MARK}"


def chat(content: object, **more: object) -> dict[str, object]:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}], **more}


# By path: what LiteLLM cannot take, would fetch, or would log.
FAILING: dict[str, list[dict[str, object]]] = {
    CHAT: [
        chat(MARK, model=MARK),
        chat(MARK, model=MARK * 50),
        chat(MARK, model=[MARK]),
        {"messages": [{"role": "user", "content": MARK}]},
        {"model": "tiny"},
        {"model": "tiny", "messages": [MARK]},
        {"model": "tiny", "messages": {MARK: MARK}},
        {"model": "tiny", "messages": [{"role": "assistant", "tool_calls": [MARK]}]},
        {"model": "tiny", "messages": [{"content": MARK}]},
        chat({"text": MARK}),
        chat([MARK]),
        chat([{"type": MARK, MARK: MARK}]),
        chat([{"type": "text", "text": {"a": MARK}}]),
        chat([{"type": "file", "file": {"file_id": FAR}}]),
        chat([{"type": "file", "file": {"file_data": FAR}}]),
        chat([{"type": "image_url", "image_url": {"url": FAR}}]),
        chat([{"type": "image_url", "image_url": FAR}]),
        chat([{"type": "image_url", "image_url": {"url": f" {FAR}"}}]),
        chat([{"type": "video_url", "video_url": {"url": FAR}}]),
        chat([{"type": "audio_url", "audio_url": {"url": f"file:///etc/{MARK}"}}]),
        chat([{"type": "input_audio", "input_audio": {"data": {"url": FAR}, "format": "wav"}}]),
        chat([{"type": "document", "source": {"type": "url", "url": FAR}}]),
        chat(MARK, tools=[{"type": "mcp", "server_url": FAR}]),
        chat(MARK, tools=[{"type": "function", "function": MARK}]),
        chat(MARK, temperature=MARK),
        chat(MARK, stop={"a": MARK}),
        chat(MARK, prompt=MARK),
        chat(MARK, stream=MARK),
        chat(MARK, response_format=MARK),
    ],
    "/v1/completions": [
        {"model": "tiny", "prompt": [7, 8], "user": MARK},
        {"model": "tiny", "prompt": [[7, 8]], "user": MARK},
        {"model": "tiny", "prompt": {MARK: MARK}},
        {"model": "tiny", "prompt": [[MARK]]},
        {"model": "tiny", "prompt": 7, "suffix": MARK},
    ],
    "/v1/messages": [
        chat([{"type": "image", "source": {"type": "url", "url": FAR}}], max_tokens=9),
        chat([{"type": "image", "source": {"type": "file", "file_id": MARK}}], max_tokens=9),
        chat([{"type": "document", "source": {"type": "url", "url": FAR}}], max_tokens=9),
        chat([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": MARK}]}]),
        chat(MARK, tools=[{"type": "web_fetch_1", "name": MARK}], max_tokens=9),
        chat(MARK, system={"text": MARK}, max_tokens=9),
    ],
    "/v1/responses": [
        {"model": "tiny", "input": [{"type": "item_reference", "id": MARK}]},
        {
            "model": "tiny",
            "input": [{"role": "user", "content": [{"type": "input_file", "file_url": FAR}]}],
        },
        {
            "model": "tiny",
            "input": [{"role": "user", "content": [{"type": "input_image", "image_url": FAR}]}],
        },
        {"model": "tiny", "input": MARK, "tools": [{"type": "mcp", "server_url": FAR}]},
        {"model": "tiny", "input": {MARK: MARK}},
    ],
    "/v1/embeddings": [
        {"model": "tiny-texts", "input": [1, 2], "user": MARK},
        {"model": "tiny-texts", "input": [[1]], "user": MARK},
        {"model": "tiny-texts", "input": {MARK: MARK}},
    ],
    "/v1/rerank": [
        {"model": "tiny-scores", "query": MARK, "documents": [1]},
        {"model": "tiny-scores", "query": MARK, "documents": [{"url": FAR}]},
        {"model": "tiny-scores", "query": [MARK], "documents": ["a"]},
        {"model": "tiny-scores", "documents": [MARK]},
    ],
}


@pytest.mark.parametrize("path", FAILING)
def test_what_litellm_cannot_take_or_would_fetch_is_refused(
    url: str, started: tuple[str, Path], doors: list[Door], path: str
) -> None:
    for each in FAILING[path]:
        status, text = posted(url, path, json.dumps(each).encode())
        assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error"), each
    assert [door.asked for door in doors] == [[], []]
    assert MARK not in started[1].read_text()


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
    assert len({path for door in doors for path, _ in door.asked}) == 4
    assert MARK not in started[1].read_text()


def deep(levels: int) -> bytes:
    return b'{"response_format": ' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps(body()).replace('"model":', '"model": "dead", "model":').encode(), "twice"),
        (b'{"model": "tiny", "messages": [{"role": "user", "content": "\\ud800"}]}', "no JSON"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"temperature": 0.' + b"9" * 5000 + b"}", "digits"),
        (json.dumps({"a" * 300: 1}).encode(), "key of more than"),
        (deep(80), "levels"),
        (deep(20_000), "levels"),
        (deep(100_000), "values"),
        (json.dumps({**body(), "temperature": 1}).replace(": 1}", ": 1e999}").encode(), "no JSON"),
        (b'{"stop": ["' + b'","' * 200_000 + b'"]}', "values"),
        (b'{"stop": ' + b"[]," * 100_000 + b"[]}", "values"),
        (b'"' * 1_000_000, "values"),
        (b'{"stop": "' + b'\\"' * 400_000, "no JSON"),
        (b'{"stop": "' + b"\\" * 400_001, "no JSON"),
        ('{"model": "tiny"}'.encode("utf-16"), "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (bytes(100_000), "no JSON"),
    ],
)
def test_json_that_costs_more_than_it_says(
    url: str, doors: list[Door], text: bytes, why: str
) -> None:
    status, said = posted(url, CHAT, text)
    assert (status, why in json.loads(said)["error"]["message"]) == (400, True), said
    assert [door.asked for door in doors] == [[], []]


def largest() -> Iterator[tuple[str, bytes]]:
    """Yield what is refused, and what is allowed at the most: a megabyte at this door."""
    yield "/v1/completions", json.dumps({"model": "tiny", "prompt": [123] * 200_000}).encode()
    yield CHAT, json.dumps(chat("word " * 209_000)).encode()
    many = [{"role": "user", "content": "w"}] * (VALUES // 3 - 10)
    yield CHAT, json.dumps({"model": "tiny", "messages": many}).encode()


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

    # LiteLLM loads parts of itself by the first requests of a kind.
    for path, text in largest():
        posted(url, path, text)
    calm = meanwhile(lambda: [ask(url, CHAT, **body()) for _ in range(20)])
    for path, text in largest():
        worst = meanwhile(lambda path=path, text=text: posted(url, path, text))  # type: ignore[misc]
        print(f"{len(text)} bytes: another waits {worst * 1000:.0f} ms, calm {calm * 1000:.0f} ms")
        assert worst < 6 * calm


def test_a_key_has_a_share_of_what_is_in_flight(url: str, doors: list[Door]) -> None:
    """As many large requests as there may be get no answer yet; another key's client is served."""
    for door in doors:
        door.state = "late"
    text = json.dumps(chat("x" * 1_000_000, stream=True)).encode()
    fit, more = EACH // (len(text) + 5 * VALUE), 3
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
