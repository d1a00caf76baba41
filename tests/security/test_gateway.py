"""The gateway under attack: by those who have no key, and by what a request may say."""

import http.client
import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.clock import patience
from tests.component.door.running import haproxy
from tests.component.gateway import KEYS
from tests.component.gateway.clients import ask, requests, said
from tests.component.gateway.replicas import Door
from tests.component.servers import until
from tests.security.attacks import CLIENT, CONNECTIONS, FIRST_TOKEN, attack, median

pytestmark = [
    haproxy,
    pytest.mark.skipif(not shutil.which("curl"), reason="needs curl"),
]
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


@pytest.mark.parametrize("kind", ["silent", "head", "body", "garbage"])
def test_a_client_with_a_key_gets_its_first_token_as_without_the_attack(
    url: str, doors: list[Door], kind: str
) -> None:
    address = urlsplit(url)
    assert address.hostname
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
        b'{"model": "tiny", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff"}]}',
    ],
)
def test_a_body_that_is_none(
    url: str, started: tuple[str, Path], doors: list[Door], text: bytes, kind: str
) -> None:
    before = tracebacks(started)
    address = urlsplit(url)
    client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=patience())
    head = {"Authorization": f"Bearer {KEYS[0]}", "Content-Type": kind}
    client.request("POST", CHAT, text, head)
    answer = client.getresponse()
    assert answer.status == 400
    assert json.loads(answer.read())["error"]["message"] == "the body is no JSON object"
    client.close()
    assert [door.asked for door in doors] == [[], []]
    assert tracebacks(started) == before


def test_a_key_twice_has_one_meaning(url: str, doors: list[Door]) -> None:
    address = urlsplit(url)
    client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=patience())
    text = json.dumps(body()).replace('"model":', '"model": "dead", "model":')
    head = {"Authorization": f"Bearer {KEYS[0]}", "Content-Type": "text/plain"}
    client.request("POST", CHAT, text, head)
    assert client.getresponse().status == 200
    client.close()
    ((_, found),) = doors[0].asked + doors[1].asked
    assert found["model"] == "tiny"
