"""Who is let in, what may be asked for, and how answers come."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.component.door.running import haproxy
from tests.makers.gateway import KEYS
from tests.makers.gateway_clients import ask, exchanged, requests
from tests.makers.gateway_replicas import Door

pytestmark = [haproxy, pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")]
CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("key", [None, "sk-wrong", "sk-door-and-client-012", ""])
def test_nothing_without_a_key(url: str, doors: list[Door], key: str | None) -> None:
    for path, body in requests(stream=False).items():
        status, text = ask(url, path, key=key, **body)
        assert status == 401
        assert json.loads(text)["error"]["code"] == "invalid_api_key"
    assert ask(url, "/v1/models", key=key)[0] == 401
    assert ask(url, "/health", key=key)[0] == 200
    assert [door.asked for door in doors] == [[], []]


OTHER_PATHS = """\
/ /ui/ /docs /openapi.json /config/yaml /model/info /key/list /v1/model/info /v1/audio/speech
//v1/models /v1/models/ /v1/models/.. /v1/%2e%2e/config/yaml /health/readiness /health/
/chat/completions /openai/v1/chat/completions /v1/chat/completions/ /V1/models
"""


@pytest.mark.parametrize("path", OTHER_PATHS.split())
def test_no_other_path(url: str, path: str) -> None:
    for body in ({}, {"model": "tiny"}):
        assert ask(url, path, **body)[0] == 404


def test_metrics_are_those_of_its_door_and_methods_those_of_a_path(url: str) -> None:
    assert ask(url, "/metrics")[0] == 404
    status, text = ask(url, "/metrics/door")
    assert (status, "haproxy_frontend_" in text) == (200, True)
    assert ask(url, "/metrics/door", key=None)[0] == 401
    assert ask(url, CHAT)[0] == 405
    assert ask(url, "/v1/models", model="tiny")[0] == 405


@pytest.mark.parametrize("key", KEYS)
def test_every_key_opens(url: str, key: str) -> None:
    status, text = ask(url, "/v1/models", key=key)
    assert status == 200
    profiles = ("thinking-general", "thinking-coding", "instruct-general", "instruct-reasoning")
    names = [each["id"] for each in json.loads(text)["data"]]
    assert names == [
        *("tiny", *(f"tiny-{profile}" for profile in profiles), "qwen36-fast", "dead"),
        *("both", "sleepy"),
        *("tiny-texts", "tiny-scores"),
    ]


@pytest.mark.parametrize("path", requests(stream=False))
def test_a_profile_reaches_the_engine_by_every_path(url: str, doors: list[Door], path: str) -> None:
    assert ask(url, path, **requests(stream=False)[path])[0] == 200
    ((asked, body),) = doors[0].asked + doors[1].asked
    assert asked == path
    expected = {"model": "tiny", "temperature": 0.6, "top_p": 0.95, "presence_penalty": 0.0}
    expected |= {"top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
    assert expected.items() <= body.items()
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize(
    ("model", "own", "sampling"),
    [
        ("tiny", {}, {}),
        ("qwen36-fast", {}, {"temperature": 0.0, "top_p": 1.0}),
        # What a request says itself counts.
        ("qwen36-fast", {"temperature": 0.1, "top_k": 7}, {"temperature": 0.1, "top_p": 1.0}),
    ],
)
def test_presets_and_plain_names(
    url: str, doors: list[Door], model: str, own: dict[str, Any], sampling: dict[str, Any]
) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "model": model, **own}
    assert ask(url, CHAT, **body)[0] == 200
    assert doors[0].asked + doors[1].asked == [(CHAT, {**sampling, **body})]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"model": "tiny-texts", "input": ["Hi", "Hello"], "dimensions": 2}),
        (
            "/v1/rerank",
            {"model": "tiny-scores", "query": "Hi", "documents": ["Hi", "Hello"], "top_n": 2},
        ),
    ],
)
def test_embeddings_and_scores(
    url: str, doors: list[Door], path: str, body: dict[str, Any]
) -> None:
    status, text = ask(url, path, **body)
    assert (status, json.loads(text)["usage"]) == (200, {"prompt_tokens": 2, "total_tokens": 2})
    assert doors[0].asked == [(path, body)]


def test_what_a_request_says_goes_on_as_it_is(url: str, doors: list[Door]) -> None:
    """Big numbers, other scripts, fields that nobody knows; not what is null."""
    body = {"model": "tiny", "prompt": [1, 2], "seed": 2**70, "user": "字", "x": {"y": [None, 0.1]}}
    assert ask(url, "/v1/completions", **body, stop=None)[0] == 200
    assert doors[0].asked + doors[1].asked == [("/v1/completions", body)]


def test_a_door_learns_nothing_of_a_client_but_what_concerns_the_engine(
    url: str, doors: list[Door]
) -> None:
    own = {"x-request-id": "r-1", "anthropic-version": "2023-06-01"}
    hidden = {"X-Api-Key": KEYS[1], "Cookie": "a=b"}
    hidden |= {"Forwarded": "for=192.0.2.1", "TE": "trailers", "Keep-Alive": "timeout=9"}
    body = json.dumps(requests(stream=False)["/v1/completions"]).encode()
    status, text, head = exchanged(url, "/v1/completions?key=secret", body, **own, **hidden)
    assert (status, json.loads(text)["object"]) == (200, "text_completion")
    assert head["content-type"] == "application/json"
    assert head["access-control-allow-origin"] == "*"
    (seen,) = doors[0].headers + doors[1].headers
    assert own.items() <= seen.items()
    assert seen["authorization"] == f"Bearer {KEYS[0]}"
    assert not {"x-api-key", "cookie", "forwarded", "te", "keep-alive"} & seen.keys()
    assert KEYS[1] not in str(seen)
